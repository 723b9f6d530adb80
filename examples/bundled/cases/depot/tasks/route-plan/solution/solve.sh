#!/bin/bash
set -euo pipefail
cd /app
./plan-route --depot "$(sed -n 's/^depot: //p' sites/here.txt)" > route.txt
