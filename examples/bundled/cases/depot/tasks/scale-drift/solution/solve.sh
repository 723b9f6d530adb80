#!/bin/bash
set -euo pipefail
cd /app
tail -n 5 scale.log | sed 's/.*drift=//' | sort -n | tail -n 1 > answer.txt
