#!/bin/bash
# What a perfect agent would do: Harbor's `oracle` agent runs it to prove that the task can be solved.
set -euo pipefail
cd /app
bash report.sh | sed -n 's/^total: //p' > answer.txt
