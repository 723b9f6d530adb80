#!/bin/bash
set -euo pipefail
cd /app
echo $(( $(sed -n 's/^price: //p' prices/oak.txt) * $(sed -n 's/^count: //p' counts/done/Oak-Boards.txt) )) > value.txt
