#!/bin/bash
# The one who signed the newest form stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'Faro-151'
echo "$reward" > /logs/verifier/reward.txt
