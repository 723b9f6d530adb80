#!/bin/bash
# The badge that opened the archive stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'b6642'
echo "$reward" > /logs/verifier/reward.txt
