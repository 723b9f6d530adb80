#!/bin/bash
# The sum and the largest count stand in stock.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want stock.txt $'1581\n655'
echo "$reward" > /logs/verifier/reward.txt
