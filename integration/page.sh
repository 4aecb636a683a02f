#!/usr/bin/env bash
# Looks at the admin port's page in a real browser: Debian's Chromium, installed if it is missing, with Playwright.
# XDSRELAY_SCREENSHOTS is the folder for screenshots (light, dark, narrow); without it they are thrown away.
set -euo pipefail
cd "$(dirname "$0")"
source ./programs.sh
if [[ -z ${XDSRELAY_CHROMIUM:-} ]]; then
	if ! command -v chromium >/dev/null; then
		as_root apt-get update -qq
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 chromium >/dev/null
	fi
	XDSRELAY_CHROMIUM=$(command -v chromium)
fi
export XDSRELAY_CHROMIUM
(cd testdata/page && npm ci)
go test -count 1 -run '^TestPage' . "$@"
