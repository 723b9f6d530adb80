#!/bin/bash
# The verifier: writes a reward to /logs/verifier/reward.txt.
cd /app || exit 1
if [ "$(cat answer.txt)" = $'8471' ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
