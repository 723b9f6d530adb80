#!/bin/bash
# The number of the scanned document stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'SC-713'
echo "$reward" > /logs/verifier/reward.txt
