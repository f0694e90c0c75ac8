#!/bin/bash
for file in texts/*; do echo "$(basename "$file") $(wc -w <"$file")"; done | LC_ALL=C sort >counts.txt
