#!/bin/bash
# The reading of the water meter stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt '48213'
echo "$reward" > /logs/verifier/reward.txt
