#!/bin/bash
set -euo pipefail
cd /app
mv yard/row-2/HLC-58.txt gone/HLC-58.txt
echo HLC-58 >> gone/book.txt
sha256sum gone/HLC-58.txt | cut -d' ' -f1 >> gone/book.txt
