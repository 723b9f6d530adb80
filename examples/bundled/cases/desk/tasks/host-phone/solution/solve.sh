#!/bin/bash
set -euo pipefail
cd /app
host=$(sed -n 's/^host: //p' visit.txt)
grep -F "$host" directory.txt | grep -o 'ext-[0-9]*' > answer.txt
