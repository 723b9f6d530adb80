#!/bin/bash
set -euo pipefail
cd /app
minimum=$(sed -n 's/^minimum: //p' policy.txt)
sed -i "s/^reorder-at = .*/reorder-at = $minimum/" stock.ini
