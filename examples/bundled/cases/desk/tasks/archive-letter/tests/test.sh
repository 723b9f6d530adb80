#!/bin/bash
# The letter was moved unchanged and the manifest holds its SHA-256.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
[ ! -e inbox/unsorted/Letter-88.txt ] || reward=0
cmp -s archive/june/letter-88.txt /tests/letter.txt || reward=0
want archive/june/manifest.txt "$(sha256sum < /tests/letter.txt | cut -d' ' -f1)"
echo "$reward" > /logs/verifier/reward.txt
