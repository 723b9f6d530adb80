#!/bin/bash
set -euo pipefail
cd /app
awk '$1 == "cents:" {s += $2} END {print s}' bills/*.txt > answer.txt
