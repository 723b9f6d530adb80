#!/bin/bash
set -euo pipefail
cd /app
echo $(( $(sed -n 's/^seats: //p' rooms/hall.txt) - $(sed -n 's/^booked: //p' bookings/hall.txt) )) > answer.txt
