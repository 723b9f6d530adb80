#!/bin/bash
# The shelf of the parcel for Noor stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'P-649'
echo "$reward" > /logs/verifier/reward.txt
