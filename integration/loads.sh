#!/usr/bin/env bash
# Has real Envoys and gRPC clients of four languages report their load through the relay, while
# they come and go and the stream to the control plane breaks, and compares what the control
# plane is told with what the clients did: per cluster, locality and drop category. It installs
# what it needs. XDSRELAY_LOAD_TIME is for how long (10m), and XDSRELAY_LOAD_ENVOYS how many
# Envoys there are (20). Arguments are passed on to "go test".
set -euo pipefail
cd "$(dirname "$0")"
source ./programs.sh

envoy_binary
try node_packages python_packages java_client

export XDSRELAY_LOAD_TIME=${XDSRELAY_LOAD_TIME:-10m} XDSRELAY_LOAD_ENVOYS=${XDSRELAY_LOAD_ENVOYS:-20}
report=$(mktemp)
trap 'rm -f "$report"' EXIT
result=0
XDSRELAY_INTEGRATION_REPORT=$report go test -timeout 6h -count=1 -run 'LoadReports' "$@" . ./envoy || result=$?
if [[ -s $report ]]; then
  echo "clients that reported for $XDSRELAY_LOAD_TIME:"
  cat "$report"
else
  echo "no list of clients that reported: the tests did not get that far" >&2
  result=1
fi
exit "$result"
