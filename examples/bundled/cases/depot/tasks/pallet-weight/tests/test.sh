#!/bin/bash
# The weight of the order's pallet stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt '486.5 kg'
echo "$reward" > /logs/verifier/reward.txt
