#!/bin/bash
# The list was exported and its batch stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'GX-4096'
[ -s out/guests.txt ] || reward=0
echo "$reward" > /logs/verifier/reward.txt
