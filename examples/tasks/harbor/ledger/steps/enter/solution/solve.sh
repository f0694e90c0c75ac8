#!/bin/bash
sort receipts.csv >ledger.csv
