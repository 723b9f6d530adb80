#!/bin/bash
# The guest and the host were added below the old entries.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want guestbook.txt $'Ana Pires\nLea Vogel\nMirela Dobre\nJonas Eklund'
echo "$reward" > /logs/verifier/reward.txt
