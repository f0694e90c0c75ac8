#!/bin/bash
. /tests/check.sh
check ledger.csv $'apple,2\nfig,5\npear,3' >/logs/verifier/reward.txt
