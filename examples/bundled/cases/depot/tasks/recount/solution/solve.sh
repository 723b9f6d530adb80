#!/bin/bash
set -euo pipefail
cd /app
sed -n 's/^counted: //p' shelf.txt > before.txt
./recount
sed -n 's/^counted: //p' shelf.txt > after.txt
