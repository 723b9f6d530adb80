#!/bin/bash
# The largest drift of the last five samples stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt '8.35'
echo "$reward" > /logs/verifier/reward.txt
