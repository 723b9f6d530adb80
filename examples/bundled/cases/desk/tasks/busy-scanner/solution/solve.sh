#!/bin/bash
set -euo pipefail
cd /app
for _ in 1 2; do ./scan || true; done
./scan | sed -n 's/^document: //p' > answer.txt
