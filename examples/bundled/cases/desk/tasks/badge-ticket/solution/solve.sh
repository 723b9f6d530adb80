#!/bin/bash
set -euo pipefail
cd /app
printer=$(sed -n 's/^printer: //p' office/devices.txt)
echo "printer = $printer" >> badges/badge.conf
(cd badges && ./print-badge) | sed -n 's/^ticket: //p' > answer.txt
