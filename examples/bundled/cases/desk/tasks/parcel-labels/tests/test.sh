#!/bin/bash
# Each label names the shelf of its parcel.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want labels/anouk.txt 'S-356'
want labels/bram.txt 'S-417'
want labels/cleo.txt 'S-283'
echo "$reward" > /logs/verifier/reward.txt
