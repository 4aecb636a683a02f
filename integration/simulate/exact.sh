#!/usr/bin/env bash
# Prints an overlay for the Go toolchain, for "go test -overlay FILE -tags exact": with it
# next to nothing is left to chance in a process. A seed decides the order of select and of maps and
# all random numbers of the program, and no goroutine is interrupted, nor has a mutex given to it
# out of turn, because real time has passed.
# The argument is a folder for the files.
set -euo pipefail
toolchain=$(go env GOROOT)/src
root=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)

# edit FILE SED-SCRIPT... has each script change a copy of the file, or says that it does not.
edited=()
edit() {
	local copy=$folder/${1##*/}.go file=$1 before
	shift
	edited+=("$file")
	cp "$file" "$copy"
	for script; do
		before=$(cksum <"$copy")
		sed -i -e "$script" "$copy"
		if [[ $before == "$(cksum <"$copy")" ]]; then
			echo "exact.sh: $(go version) has another $file: nothing for $script" >&2
			exit 1
		fi
	done
}

edit "$toolchain"/runtime/rand.go \
	's/^func rand() uint64 {$/&\n\tif simulated != 0 {\n\t\treturn simulatedNext()\n\t}/' \
	's/^\tglobalRand\.state\.Init(\*seed)$/\tclear(seed[:])\n&/'
cat >>"$folder/rand.go.go" <<'GO'

// simulated is the state of the random numbers of a simulation; 0: there is none.
//
//go:linkname simulated
var simulated uint64

//go:nosplit
func simulatedNext() uint64 {
	simulated += 0x9e3779b97f4a7c15
	z := simulated
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

func simulatedSelect(n uint32) uint32 {
	if simulated == 0 {
		return cheaprandn(n)
	}
	return uint32((uint64(uint32(simulatedNext())) * uint64(n)) >> 32)
}
GO
edit "$toolchain"/runtime/select.go 's/cheaprandn(uint32(norder + 1))/simulatedSelect(uint32(norder + 1))/'
edit "$toolchain"/runtime/proc.go 's/^const forcePreemptNS = .*/const forcePreemptNS = 1 << 60/'
edit "$toolchain"/internal/sync/mutex.go 's/starvationThresholdNs = 1e6/starvationThresholdNs = 1 << 60/'

# How long goroutines waited for a processor, by which new scopes are paced, is real time too: none waited.
edit "$root"/relay/load/scopes.go 's/^func readWaits() (is waits) {$/&\n\tif simulated {\n\t\treturn waits{}\n\t}/'
printf '\nvar simulated = true\n' >>"$folder/scopes.go.go"

printf '{"Replace": {' >"$folder/overlay.json"
separator=
for file in "${edited[@]}"; do
	printf '%s\n\t"%s": "%s"' "$separator" "$file" "$folder/${file##*/}.go" >>"$folder/overlay.json"
	separator=,
done
printf '\n}}\n' >>"$folder/overlay.json"
echo "$folder/overlay.json"
