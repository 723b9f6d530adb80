#!/bin/bash
# The balance after the last entry stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt '4009'
echo "$reward" > /logs/verifier/reward.txt
