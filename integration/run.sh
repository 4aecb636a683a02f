#!/usr/bin/env bash
# Runs the end-to-end tests with everything that belongs to them: installs what
# the gRPC clients for Node and Python need beside Go, runs the tests so that
# none is skipped for want of a tool, and lists what ran and what could not.
set -euo pipefail
cd "$(dirname "$0")"

python=/usr/bin/python3

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# npm ci starts from nothing each time, so it runs only if the lock file is not
# the one that the installed packages are from.
node_packages() {
  cd testdata/grpcjs
  if ! cmp -s package-lock.json node_modules/.installed; then
    echo "installing npm packages into integration/testdata/grpcjs/node_modules:"
    npm ci
    cp package-lock.json node_modules/.installed
  fi
  echo "npm packages:"
  npm ls --depth=0
}

python_packages() {
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends
    -o Dpkg::Use-Pty=0 python3-grpcio)
  if ! "$python" -c 'import grpc' 2>/dev/null; then
    echo "installing Debian's package python3-grpcio and what it needs:"
    # The second try is for lists that are missing or old.
    as_root "${install[@]}" || {
      as_root apt-get update -qq
      as_root "${install[@]}"
    }
  fi
  "$python" -c 'import grpc; print("python3-grpcio:", grpc.__version__)'
}

# What cannot be installed does not stop this: the tests tell what is missing,
# list it and fail. (After || or if, bash would not stop in a function either.)
set +e
(set -e && node_packages)
(set -e && python_packages)
set -e

report=$(mktemp)
trap 'rm -f "$report"' EXIT
result=0
XDSRELAY_INTEGRATION_REPORT=$report go test ./... || result=$?
if [[ -s $report ]]; then
  echo "gRPC clients:"
  cat "$report"
else
  echo "no list of gRPC clients: the tests did not get that far" >&2
  result=1
fi
exit "$result"
