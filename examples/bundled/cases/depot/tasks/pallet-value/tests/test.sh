#!/bin/bash
# Price times count stands in value.txt.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want value.txt '5402'
echo "$reward" > /logs/verifier/reward.txt
