#!/bin/bash
# route.txt holds the route of this depot.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want route.txt $'depot quay-3\n1 Mill Lane\n2 Corn Square\n3 Ferry Stairs'
echo "$reward" > /logs/verifier/reward.txt
