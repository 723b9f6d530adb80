#!/bin/bash
# The aisle of crate Q-19 stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'aisle-Q75'
echo "$reward" > /logs/verifier/reward.txt
