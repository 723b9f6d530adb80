#!/bin/bash
set -euo pipefail
cd /app
for day in monday tuesday wednesday thursday friday; do
  sed -n "s/^$day: //p" shifts/*.txt
done > plan.txt
