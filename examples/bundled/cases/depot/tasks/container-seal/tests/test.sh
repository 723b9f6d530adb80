#!/bin/bash
# The sheet was moved unchanged and the book has its entry below the old one.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
[ ! -e yard/row-2/HLC-58.txt ] || reward=0
cmp -s gone/HLC-58.txt /tests/sheet.txt || reward=0
want gone/book.txt "$(printf 'HLC-57\nno checksum\nHLC-58\n%s' "$(sha256sum < /tests/sheet.txt | cut -d' ' -f1)")"
echo "$reward" > /logs/verifier/reward.txt
