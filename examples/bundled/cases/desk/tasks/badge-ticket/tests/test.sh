#!/bin/bash
# The badge was printed and the ticket stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'T-95531'
grep -q '^printer *= *lp-west-7$' badges/badge.conf || reward=0
echo "$reward" > /logs/verifier/reward.txt
