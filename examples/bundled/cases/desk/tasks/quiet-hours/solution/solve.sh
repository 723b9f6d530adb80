#!/bin/bash
set -euo pipefail
cd /app
sed -i 's/^quiet-hours = .*/quiet-hours = 22-07/' house.conf
