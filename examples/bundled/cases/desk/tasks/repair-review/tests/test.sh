#!/bin/bash
# The number of open repairs and the file of the most expensive one were written.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want open.txt $'3\nopen'
want priciest.txt 'gutter.open'
echo "$reward" > /logs/verifier/reward.txt
