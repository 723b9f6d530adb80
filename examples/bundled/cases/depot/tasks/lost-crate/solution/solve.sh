#!/bin/bash
set -euo pipefail
cd /app
grep -rliF 'crate q-19' crates | xargs sed -n 's/^aisle: //p' > answer.txt
