#!/usr/bin/env bash
# Runs the end-to-end tests with everything that belongs to them: installs and
# builds the gRPC clients for Node, Python and Java, the control planes that are programs
# of their own, and an Envoy, runs the tests so that none is skipped for want of a tool,
# and lists what ran and what could not.
set -euo pipefail
cd "$(dirname "$0")"
source ./programs.sh

go_control_plane() {
  cd testdata/gcp0103
  go build -o target/server .
  echo "go-control-plane:"
  go list -m github.com/envoyproxy/go-control-plane
}

try node_packages python_packages java_client java_control_plane go_control_plane debian_prometheus

report=$(mktemp)
trap 'rm -f "$report"' EXIT
result=0
# Real Envoys come last and by themselves: their tests are about time. The control planes of
# controlplanes.sh take too long to build.
packages=$(go list ./... | grep -v -e '/integration/envoy$' -e '/integration/controlplanes$')
# shellcheck disable=SC2086 # one word each
XDSRELAY_INTEGRATION_REPORT=$report go test -timeout 30m $packages || result=$?
if [[ -s $report ]]; then
  echo "gRPC clients and control planes:"
  cat "$report"
else
  echo "no list of gRPC clients and control planes: the tests did not get that far" >&2
  result=1
fi
./envoy.sh || result=1
exit "$result"
