#!/bin/bash
set -euo pipefail
cd /app
{ find repairs -name '*.open' | wc -l; echo open; } > open.txt
grep -r '^cost: ' repairs | sed 's/:cost: / /' | sort -k2 -n | tail -n 1 | cut -d' ' -f1 | xargs basename > priciest.txt
