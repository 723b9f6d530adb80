#!/bin/bash
set -euo pipefail
cd /app
awk '$1 == "units:" {s += $2; if ($2 > m) m = $2} END {print s; print m}' aisles/*.txt > stock.txt
