#!/bin/bash
set -euo pipefail
cd /app
mkdir -p labels
for name in Anouk Bram Cleo; do
  grep -F "for=$name" parcels/today.txt | sed 's/.*shelf=//' > "labels/${name,,}.txt"
done
