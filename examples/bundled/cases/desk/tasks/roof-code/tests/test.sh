#!/bin/bash
# The code on the card at the end of the references stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt '7719-kestrel'
echo "$reward" > /logs/verifier/reward.txt
