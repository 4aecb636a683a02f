#!/usr/bin/env bash
# Plays the same random walks against two builds of the relay, that of a revision and that of the working tree, and
# lists where clients are sent something else: see integration/compare. OLD is the revision, SEEDS how many walks are
# played and FROM the first one. Arguments are passed on to "go test".
set -euo pipefail
cd "$(dirname "$0")/.."

: "${OLD:?is the revision to compare with, as in OLD=v1.0.0}"
folder=$(mktemp -d)
trap 'git worktree remove --force "$folder/tree" 2>/dev/null || true; rm -rf "$folder"' EXIT
git worktree add --quiet --detach "$folder/tree" "$OLD"

# Both are built as "make build" does it. What did not change is compiled once.
export CGO_ENABLED=0
flags=(-tags grpcnotrace -trimpath -ldflags '-s -w')
go -C "$folder/tree" build "${flags[@]}" -o "$folder/old" ./cmd/xdsrelay
go build "${flags[@]}" -o "$folder/new" ./cmd/xdsrelay
go test -timeout 24h -count 1 -v -run '^TestCompare$' ./integration/compare \
  -compare.old="$folder/old" -compare.new="$folder/new" -compare.from="${FROM:-1}" -compare.seeds="${SEEDS:-300}" "$@" |
  grep -v -e '^=== ' -e '^ *--- PASS'
