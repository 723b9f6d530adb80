#!/bin/bash
set -euo pipefail
cd /app
grep -c guest entrance.log > answer.txt
