#!/bin/bash
set -euo pipefail
cd /app
sed -n 's/^code: //p' "$(sed -n 's/^card: //p' lockers/9.txt)" > answer.txt
