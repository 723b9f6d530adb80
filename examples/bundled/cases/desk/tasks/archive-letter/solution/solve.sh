#!/bin/bash
set -euo pipefail
cd /app
mkdir -p archive/june
mv inbox/unsorted/Letter-88.txt archive/june/letter-88.txt
sha256sum archive/june/letter-88.txt | cut -d' ' -f1 > archive/june/manifest.txt
