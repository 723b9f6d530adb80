#!/bin/bash
# The five names stand in plan.txt in the order of the days.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want plan.txt $'Ruth-Ek\nSami-Oy\nTove-Li\nUgo-Ra\nVera-Mi'
echo "$reward" > /logs/verifier/reward.txt
