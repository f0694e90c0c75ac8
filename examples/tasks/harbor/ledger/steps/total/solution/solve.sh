#!/bin/bash
total=0
while IFS=, read -r _ price; do total=$((total + price)); done <ledger.csv
echo "$total" >total.txt
