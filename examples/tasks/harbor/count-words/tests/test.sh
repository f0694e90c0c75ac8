#!/bin/bash
# Each right line counts a third; the score is 1 if all are right.
declare -A expected=([cat.txt]=6 [empty.txt]=0 [numbers.txt]=4)
right=0
for name in "${!expected[@]}"; do
  [ "$(grep "^$name " counts.txt 2>/dev/null)" = "$name ${expected[$name]}" ] && right=$((right + 1))
done
[ "$right" = 3 ] && [ "$(wc -l <counts.txt)" = 3 ] && reward=1 || reward=0
echo "{\"reward\": $reward, \"lines\": $right}" >/logs/verifier/reward.json
