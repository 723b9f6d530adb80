#!/bin/bash
set -euo pipefail
cd /app
manifest=$(sed -n 's/^manifest: //p' orders/7731.txt)
pallet=$(sed -n 's/^pallet: //p' "$manifest")
sed -n 's/^weight: //p' "$pallet" > answer.txt
