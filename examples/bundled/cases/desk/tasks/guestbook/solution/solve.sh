#!/bin/bash
set -euo pipefail
cd /app
sed -n 's/^guest: //p; s/^host: //p' today.txt >> guestbook.txt
