#!/bin/bash
# Each sign names the truck of its dock.
cd /app || exit 1
reward=1
want() { [ "$(cat "$1")" = "$2" ] || reward=0; }
want signs/dock-1.txt 'KRS-Heron'
want signs/dock-2.txt 'MLV-Osprey'
want signs/dock-3.txt 'PTA-Falcon'
want signs/dock-4.txt 'QDN-Stork'
echo "$reward" > /logs/verifier/reward.txt
