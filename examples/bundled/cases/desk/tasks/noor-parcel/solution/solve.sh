#!/bin/bash
set -euo pipefail
cd /app
grep -rliF 'parcel for noor' mail | xargs sed -n 's/^shelf: //p' > answer.txt
