#!/bin/bash
set -euo pipefail
cd /app
sed -n 's/^reading: //p' meters/water.txt > answer.txt
