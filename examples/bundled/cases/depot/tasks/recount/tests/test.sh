#!/bin/bash
# The counts before and after the recount were written.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want before.txt 'sixty-one'
want after.txt 'fifty-eight'
echo "$reward" > /logs/verifier/reward.txt
