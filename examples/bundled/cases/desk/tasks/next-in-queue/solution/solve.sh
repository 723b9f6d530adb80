#!/bin/bash
set -euo pipefail
cd /app
./call-next
sed -n 's/^now-serving: //p' queue.txt > answer.txt
