#!/usr/bin/env bash
# Plays for as long as it takes what the relay holds back from clients: a control plane restarts empty and comes back
# complete after two minutes, under 20 real Envoys with traffic and under gRPC clients of four languages; a wrong
# route is rolled back in 20 Envoys; what clients get is held for ten minutes while everything changes. It installs
# what it needs. XDSRELAY_HOLD_EMPTY is for how long the control plane of the gRPC clients is empty (2m), and
# XDSRELAY_HOLD_FOR how long what clients get is held (10m). Arguments are passed on to "go test".
set -euo pipefail
cd "$(dirname "$0")"
source ./programs.sh

envoy_binary
try node_packages python_packages java_client

report=$(mktemp)
trap 'rm -f "$report"' EXIT
result=0
export XDSRELAY_INTEGRATION_REPORT=$report
# One after the other: there are times in it.
XDSRELAY_SOAK=1 go test -timeout 2h -count=1 -parallel 1 -run '^TestRollback|^TestGuard' "$@" ./envoy || result=$?
go test -timeout 2h -count=1 -run '^TestGRPCClientsGuard|^TestHoldUnderChurn' "$@" . \
  -guard.empty="${XDSRELAY_HOLD_EMPTY:-2m}" -hold.for="${XDSRELAY_HOLD_FOR:-10m}" || result=$?
if [[ -s $report ]]; then
  echo "Envoys and gRPC clients whose control plane lost everything, or was taken back:"
  sort -k 3 "$report"
else
  echo "no list of Envoys and gRPC clients: the tests did not get that far" >&2
  result=1
fi
exit "$result"
