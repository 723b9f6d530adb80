#!/bin/bash
# Only the reorder level of stock.ini changed.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
cmp -s stock.ini /tests/stock.ini || reward=0
grep -qx 'reorder-at = 345' stock.ini || reward=0
echo "$reward" > /logs/verifier/reward.txt
