#!/bin/bash
# The phone of the visitor's host stands in answer.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want answer.txt 'ext-3204'
echo "$reward" > /logs/verifier/reward.txt
