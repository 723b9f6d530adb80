#!/bin/bash
# The number of late guests and the word late stand in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt $'26\nlate'
echo "$reward" > /logs/verifier/reward.txt
