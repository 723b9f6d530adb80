#!/bin/bash
# Adds up the third column.
awk '{ sum += $3 } END { print "rows: " NR; print "total: " sum }' "$(dirname "$0")/sales.txt"
