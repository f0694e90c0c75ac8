#!/bin/bash
. /tests/check.sh
check total.txt 10 >/logs/verifier/reward.txt
