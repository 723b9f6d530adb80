#!/bin/bash
# The conveyor runs and its speed stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'swift-lane'
[ -e conveyor/.warm ] || reward=0
echo "$reward" > /logs/verifier/reward.txt
