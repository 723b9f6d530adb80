#!/bin/bash
# Only the quiet hours of house.conf changed.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
cmp -s house.conf /tests/house.conf || reward=0
grep -qx 'quiet-hours = 22-07' house.conf || reward=0
echo "$reward" > /logs/verifier/reward.txt
