#!/bin/bash
set -euo pipefail
cd /app
{ grep -cF 'arrived late' visits.log; echo late; } > answer.txt
