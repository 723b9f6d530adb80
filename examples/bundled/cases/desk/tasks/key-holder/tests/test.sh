#!/bin/bash
# The holder of key 12 in the newest list stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'Quentin-L'
echo "$reward" > /logs/verifier/reward.txt
