#!/bin/bash
# The one who was called stands in answer.txt, and exactly one was called.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'Q-514'
want queue.txt $'now-serving: Q-514\nwaiting: Q-521 Q-533'
echo "$reward" > /logs/verifier/reward.txt
