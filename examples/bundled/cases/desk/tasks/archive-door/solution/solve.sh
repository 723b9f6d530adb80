#!/bin/bash
set -euo pipefail
cd /app
grep -F door=archive door.log | sed 's/.*badge=//' > answer.txt
