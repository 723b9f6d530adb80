#!/bin/bash
set -euo pipefail
cd /app
grep -F gate=E gate.log | sed 's/.*plate=//' > answer.txt
