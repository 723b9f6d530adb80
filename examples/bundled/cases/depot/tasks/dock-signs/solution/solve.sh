#!/bin/bash
set -euo pipefail
cd /app
mkdir -p signs
for n in 1 2 3 4; do
  sed -n "s/^dock=$n truck=//p" docks/*.txt > "signs/dock-$n.txt"
done
