#!/bin/bash
# The plate of the truck at the east gate stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'ZX-Lotus'
echo "$reward" > /logs/verifier/reward.txt
