#!/bin/bash
set -euo pipefail
cd /app
tail -n 1 cash/journal.txt | sed 's/.*balance=//' > answer.txt
