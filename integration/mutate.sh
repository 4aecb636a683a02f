#!/usr/bin/env bash
# Tests the tests of cache and downstream/delivery: gremlins changes one operator after the other,
# and a test must fail each time. The whole takes an hour or two. It goes file by file, in an order that
# SEED shuffles, and keeps what came of each file in bin/mutate: the next run goes on where this
# one was stopped. A file that changed since is played again.
#
#   integration/mutate.sh                    all files that were not played yet
#   integration/mutate.sh cache/view.go ...  these files, again if need be
#   integration/mutate.sh -lived             the mutants that lived, in all files, after new tests
#   integration/mutate.sh -report            none, only the report
#
# With QUICK=1 the few tests that take most of the time are left out. Then -lived without it plays what
# these may find.
#
# The report counts the mutants, and lists those that no test found (LIVED, or NOT COVERED) and
# that integration/mutate/survivors.txt does not explain. It fails if there are such, or if less
# than 90 of 100 were found.
set -euo pipefail
cd "$(dirname "$0")/.."

seed=${SEED:-1}
workers=${WORKERS:-1}
packages="cache cache/digest cache/hold cache/snapshot downstream/delivery"
others="downstream" # their short tests help to find mutants
results=bin/mutate
mkdir -p "$results"

files() {
	for package in $packages; do
		go list -f '{{range .GoFiles}}{{.}}{{"\n"}}{{end}}' "./$package" | sed "/./s|^|$package/|"
	done | grep . | awk -v seed="$seed" 'BEGIN {srand(seed)} {print rand() "\t" $0}' | sort | cut -f 2
}

result() { echo "$results/${1//\//_}.txt"; }

# played reports whether a file's result is that of its present content.
played() { [[ -f $(result "$1") && $(head -1 "$(result "$1")") == "$(git hash-object "$1")" ]]; }

# tree copies what the tests need into a folder that nobody edits meanwhile, and that
# has no built programs: gremlins copies it again.
tree() {
	git ls-files -z --cached --others --exclude-standard -- '*.go' go.mod go.sum 'cache/**' 'downstream/**' 'internal/**' ':!integration' ':!cmd' |
		xargs -0 cp --parents -t "$1"
}

# switches compiles the tests of each package with all of its mutants, one of which a variable selects when they run,
# and notes which of them each test needs: to compile and to link tests for each mutant, and to run all of
# them, took most of the time. It fails if a test does: otherwise all mutants would seem to be killed.
switches() {
	local package flags
	go build -o "$switched/switches" ./integration/mutate/switches
	tree "$switched"
	"$switched/switches" write $packages
	for package in $packages $others; do
		(cd "$switched" && go test -vet=off -ldflags='-s -w' -c -o "$package.test" "./$package")
		# Without a limit of time, the runtime finds that all goroutines wait. integration/mutate/switches has limits.
		flags="-test.failfast -test.timeout=0"
		if grep -q 'pgregory.net/rapid' "$package"/*_test.go; then flags+=" -rapid.seed=$seed -rapid.nofailfile -rapid.shrinktime=1ns"; fi
		echo "$flags" >"$switched/$package.flags"
	done
	"$switched/switches" note $packages $others
}

# play writes the result of one file. With a second argument it plays only the mutants that lived the last
# time, and takes the others from that result.
play() {
	local file=$1 again=${2:-} package except out
	package=$(dirname "$file")
	except=$(cd "$package" && find . -name '*.go' ! -name '*_test.go' ! -path "./$(basename "$file")" | sed 's|^\./||; s|\.|\\.|g' | paste -sd '|')
	out=$(result "$file")
	export MUTATE_FILE=$file MUTATE_COVERAGE=$switched/coverage.out
	if [[ -n $again ]]; then
		missing "$file" | sed 's/.*:\([0-9]*\):\([0-9]*\)$/\1.\2/' >"$out.again"
		MUTATE_COVERAGE=$switched/again.out
		awk -F '[:, ]' 'FNR == NR {again[$1]; next} FNR == 1 || $2 in again' "$out.again" "$switched/coverage.out" >"$MUTATE_COVERAGE"
	fi
	# The limits of integration/mutate/switches hold. That of gremlins is a multiple of the time that it took to
	# copy the coverage.
	(cd "$tree" && PATH="$tools:$PATH" "$gremlins" unleash --workers "$workers" --timeout-coefficient 1000000 --invert-logical \
		--exclude-files "^($except)\$" "./$package") >"$out.log" 2>&1 || { cat "$out.log" >&2; return 1; }
	if [[ -s $switched/errors ]]; then cat "$switched/errors" >&2; return 1; fi
	{
		git -C "$tree" hash-object "$tree/$file"
		grep -E '^ *(KILLED|LIVED|NOT COVERED|NOT VIABLE|TIMED OUT) ' "$out.log" | sed 's/^ *//' |
			if [[ -n $again ]]; then
				awk -F : '
					FILENAME ~ /again$/ {again[$1]; next}
					FILENAME == "-" ? $(NF-1) "." $NF in again : FNR > 1 && !($(NF-1) "." $NF in again)' "$out.again" "$out" -
			else
				cat
			fi || true
	} >"$out.new"
	mv "$out.new" "$out"
	rm -f "$out.log" "$out.again"
	printf '%s %s: %s\n' "$(date +%T)" "$file" "$(sed 1d "$out" | awk '{n[$1 ($1 == "NOT" || $1 == "TIMED" ? " " $2 : "")]++} END {for (s in n) printf "%d %s  ", n[s], tolower(s)}')"
}

# missing lists the mutants of a file that no test found.
missing() { grep -E '^(LIVED|NOT COVERED) ' "$(result "$1")"; }

report() {
	local file all played=0
	all=$(files | sort)
	for file in $all; do
		if played "$file"; then
			sed 1d "$(result "$file")" | while read -r line; do
				at=${line##* }
				row=${at#*:}
				row=${row%%:*}
				printf '%s\t%s\t%s\t%s\n' "$file" "$line" "$row" "$(sed -n "${row}s/^[[:space:]]*//p" "$file")"
			done
		fi
	done >"$results/all.tsv"
	for file in $all; do
		if played "$file"; then played=$((played + 1)); fi
	done
	echo
	echo "$played of $(wc -w <<<"$all") files played, with seed $seed"
	awk -F '\t' '
		FNR == NR {
			if ($0 !~ /^(#|$)/) {split($0, part, "`"); sub(/ $/, "", part[1]); why[part[1] "\t" part[2]] = part[3]}
			next
		}
		{
			package = $1; sub("/[^/]*$", "", package)
			match($2, /^(NOT COVERED|NOT VIABLE|TIMED OUT|[A-Z]+)/)
			status = substr($2, 1, RLENGTH)
			type = substr($2, RLENGTH + 2); sub(/ at .*/, "", type)
			packages[package]; n[package, status]++
			if (status != "LIVED" && status != "NOT COVERED") next
			if (why[$1 " " type "\t" $4] != "") {explained[package]++; next}
			printf "%s %s at %s: `%s`\n", tolower(status), type, $1 substr($2, match($2, /:[0-9]+:[0-9]+$/)), $4
			missing++
		}
		function row(name, killed, lived, explained, uncovered, unviable) {
			all = killed + lived + uncovered
			printf "%-22s %7d %7d %12d %10d %11d %7.1f %%\n", name, killed, lived, uncovered, explained, unviable, all ? 100 * killed / all : 0
		}
		END {
			printf "\n%-22s %7s %7s %12s %10s %11s %9s\n", "package", "killed", "lived", "not covered", "explained", "not viable", "killed"
			for (p in packages) {
				killed = n[p, "KILLED"] + n[p, "TIMED OUT"]
				row(p, killed, n[p, "LIVED"], explained[p], n[p, "NOT COVERED"], n[p, "NOT VIABLE"])
				k += killed; l += n[p, "LIVED"]; e += explained[p]; c += n[p, "NOT COVERED"]; v += n[p, "NOT VIABLE"]
			}
			row("all", k, l, e, c, v)
			if (missing) printf "\n%d of those that no test found are not explained\n", missing
			exit missing > 0 || k < 0.9 * (k + l + c)
		}' integration/mutate/survivors.txt "$results/all.tsv"
}

if [[ ${1:-} == -report ]]; then
	report
	exit
fi

gremlins=$PWD/bin/gremlins
tools=$PWD/integration/mutate
go build -modfile=tools/go.mod -o "$gremlins" github.com/go-gremlins/gremlins/cmd/gremlins
tree=$(mktemp -d)
switched=$(mktemp -d)
trap 'rm -rf "$tree" "$switched"' EXIT
export MUTATE_GO MUTATE_SWITCHED=$switched MUTATE_TREE=$tree
MUTATE_GO=$(command -v go)
tree "$tree"
switches

if [[ ${1:-} == -lived ]]; then
	for file in $(files); do
		if played "$file" && missing "$file" >/dev/null; then play "$file" again; fi
	done
elif [[ $# -gt 0 ]]; then
	for file; do play "$file"; done
else
	for file in $(files); do
		played "$file" || play "$file"
	done
fi
report
