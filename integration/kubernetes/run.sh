#!/usr/bin/env bash
# Installs the chart on a Kubernetes that is there, has Envoys send traffic while all that the control plane
# says changes every two seconds, and does to the relays what operators and clusters do to them. After each step
# it says how many requests failed, and it ends with 1 if one did, or if an Envoy lacks what the control plane says.
#   ON             command prefix by which kubectl and helm reach the cluster; empty: they are in PATH
#   LOAD           command that takes an image archive and brings it to all nodes: "kind load image-archive"
#   XDSRELAY_ENVOY an Envoy; if it is not set, that of make integration is installed
#   FLEET          how many Envoys, 10 if it is not set
#   KEEP           1: leave everything there
# It needs buildah and openssl, and makes and removes the namespaces xdsrelay-soak and xdsrelay-soak-page.
set -euo pipefail
cd "$(dirname "$0")/.."
source ./programs.sh
read -ra on <<<"${ON-}"
read -ra load <<<"${LOAD:?set LOAD to a command that brings an image archive to all nodes}"
envoy_binary
cd kubernetes
ns=xdsrelay-soak fleet=${FLEET:-10}
tmp=$(mktemp -d)
kubectl() { "${on[@]:-command}" kubectl "$@"; }
helm() { "${on[@]:-command}" helm "$@"; }
k() { kubectl --namespace "$ns" "$@"; }
h() { helm --namespace "$ns" "$@"; }
finish() {
	local result=$?
	if [[ $result != 0 ]]; then
		k get pods -o wide || true
		k logs -l app.kubernetes.io/name=xdsrelay --tail=20 --prefix || true
	fi
	[[ -n ${KEEP-} ]] || kubectl delete namespace "$ns" "$ns-page" --ignore-not-found --wait=false >/dev/null || true
	[[ -z ${drained-} ]] || kubectl uncordon "$drained" || true
	rm -rf "$tmp"
}
trap finish EXIT
say() { echo "[$SECONDS s] $*"; }

# --- images ---
store=(--root "$tmp/images" --runroot "$tmp/run" --storage-driver vfs)
ARCHES=$(go env GOHOSTARCH) OUT=$tmp/dist ../../deploy/package/build.sh >"$tmp/build.log" 2>&1 || { cat "$tmp/build.log"; exit 1; }
image=$(sed -n 's/^appVersion: "\(.*\)"/\1/p' <(tar -xzOf "$tmp"/dist/xdsrelay-chart-*.tgz xdsrelay/Chart.yaml))
mkdir -p "$tmp/world/root/tmp"
CGO_ENABLED=0 go build -trimpath -o "$tmp/world/root/app" ./app
cp "$XDSRELAY_ENVOY" "$tmp/world/root/envoy"
ldd "$XDSRELAY_ENVOY" | grep -o '/[^ ]*' | xargs cp --parents -L -t "$tmp/world/root"
printf 'FROM scratch\nCOPY root /\nENTRYPOINT ["/app"]\n' >"$tmp/world/Containerfile"
buildah "${store[@]}" build --quiet --isolation chroot --tag localhost/xdsrelay-world:1 "$tmp/world" >/dev/null 2>&1
buildah "${store[@]}" push --quiet localhost/xdsrelay-world:1 "docker-archive:$tmp/world.tar:localhost/xdsrelay-world:1"
"${load[@]}" "$tmp/world.tar"
"${load[@]}" "$(echo "$tmp"/dist/*.oci.tar)"
say "images are on all nodes"

# --- the page for new users, as it is but for names: the images are there already ---
mkdir "$tmp/page"
tar -C "$tmp/page" --strip-components=1 -xzf "$tmp"/dist/xdsrelay_*.tar.gz
cp "$tmp"/dist/xdsrelay-chart-*.tgz "$tmp/page"
{
	declare -p on
	declare -f kubectl helm
	sed -n '/^```sh$/,/^```$/{/^```/d;/^kind /d;p}' ../../docs/start/kubernetes.md | sed -E "s,(namespace |namespaces/|\.)xds\b,\1$ns-page,g
		s,image: docker.io/envoyproxy/.*,image: localhost/xdsrelay-world:1,; s,command: \[envoy,command: [/envoy,"
} >"$tmp/page/page.sh"
kubectl delete namespace "$ns-page" --ignore-not-found >/dev/null
(cd "$tmp/page" && PATH=$tmp/page:$PATH timeout 5m bash -euo pipefail page.sh) >"$tmp/page.log" 2>&1 || { cat "$tmp/page.log"; exit 1; }
say "docs/start/kubernetes.md: $(tail -n 1 "$tmp/page.log")"
kubectl delete namespace "$ns-page" >/dev/null

# --- certificates: one authority ---
cert() { # NAME SECRET HOST...: a new certificate of the authority, into a secret
	local name=$1 secret=$2 hosts
	shift 2
	hosts=$(printf ',DNS:%s' "$@")
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" -keyout "$tmp/$name.key" -out "$tmp/$name.csr" 2>/dev/null
	openssl x509 -req -in "$tmp/$name.csr" -CA "$tmp/ca.crt" -CAkey "$tmp/ca.key" -days 2 -out "$tmp/$name.crt" 2>/dev/null \
		-extfile <(echo "subjectAltName=${hosts#,}"; echo "extendedKeyUsage=serverAuth,clientAuth")
	k create secret generic "$secret" --dry-run=client -o yaml \
		--from-file=tls.crt="$tmp/$name.crt" --from-file=tls.key="$tmp/$name.key" --from-file=ca.crt="$tmp/ca.crt" >"$tmp/secret.yaml"
	k apply -f "$tmp/secret.yaml" >/dev/null
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=soak -days 2 -keyout "$tmp/ca.key" -out "$tmp/ca.crt" 2>/dev/null
kubectl delete namespace "$ns" --ignore-not-found >/dev/null
kubectl create namespace "$ns" >/dev/null
cert relay server edge-xdsrelay "edge-xdsrelay.$ns.svc"
cert envoy client envoy

# --- what is asserted ---
relays() { k get pods -l app.kubernetes.io/name=xdsrelay --field-selector=status.phase=Running -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}' | sort; }
counts() { # [begin]: what came of the traffic of each Envoy, a line each
	local pod
	for pod in $(k get pods -l app=fleet -o jsonpath='{.items[*].metadata.name}'); do
		echo -n "$pod "
		k get --raw "/api/v1/namespaces/$ns/pods/$pod:9000/proxy/${1-}" || echo "does not answer"
	done
}
judge() { # NAME: the sum; fails while an Envoy is behind, has not begun, or had failures
	python3 -c '
import json, sys
pods = {pod: json.loads(counts) for pod, counts in (line.split(" ", 1) for line in sys.stdin)}
all = pods.values()
sent, failed, behind = sum(c["sent"] for c in all), sum(c["failed"] for c in all), max([c["behind"] for c in all], default=0)
print(f"{sys.argv[1]}: {len(all)} Envoys, {sent} requests, {failed} failed, at most {behind} steps behind")
for pod, c in pods.items():
    for f in c["failures"] or []: print("  " + pod + " " + f)
sys.exit(2 if failed and sys.argv[3] == "strict" else len(all) != int(sys.argv[2]) or min([c["sent"] for c in all], default=0) == 0 or behind > 3)' "$1" "$fleet" "${2-strict}" <"$tmp/counts"
}
failed=0
well() { # NAME [start]: waits until all Envoys have what the control plane says, and begins to count anew
	local end=$((SECONDS + 120)) result
	while :; do
		counts >"$tmp/counts" 2>&1 || true
		result=0
		judge "$@" >"$tmp/verdict" 2>&1 || result=$?
		[[ $result = 1 && $SECONDS -lt $end ]] || break
		sleep 2
	done
	say "$(cat "$tmp/verdict")"
	[[ $result = 0 ]] || failed=1
	counts begin >/dev/null
}
chart() { h upgrade --install edge "$tmp"/dist/xdsrelay-chart-*.tgz --values values.yaml --wait --timeout 5m "$@" >/dev/null; }

rolled() {
	local each
	for each in "$@"; do k rollout status "deployment/$each" --timeout=5m >/dev/null; done
}

# --- the world ---
k apply -f world.yaml >/dev/null
k scale deployment/fleet --replicas=0 >/dev/null
rolled plane backend
chart
say "three relays of $image are ready"
h test edge --logs
k scale deployment/fleet --replicas="$fleet" >/dev/null
rolled fleet
# Envoys that all start at once on two cores take longer than control planes and relays wait for them: a route is
# there before its cluster is warm. That is not about relays.
well "install" start

before=$(relays)
chart --set config.aggregation.linger=6m
for ((i = 0; i < 120; i++)); do
	n=$(k logs -l app.kubernetes.io/name=xdsrelay --tail=1000 | grep -c 'the new configuration is in force' || true)
	[[ $n -lt 3 ]] || break
	sleep 1
done
[[ $n -ge 3 && $(relays) = "$before" ]] || { echo "$n of 3 relays reloaded; relays before: $before; now: $(relays)"; exit 1; }
well "configuration reloaded without a new pod"

cert relay server edge-xdsrelay "edge-xdsrelay.$ns.svc"
for ((i = 0; i < 120; i++)); do
	n=$(k logs -l app.kubernetes.io/name=xdsrelay --tail=1000 | grep -c "read the server's TLS files again" || true)
	[[ $n -lt 3 ]] || break
	sleep 1
done
[[ $n -ge 3 && $(relays) = "$before" ]] || { echo "$n of 3 relays read the renewed certificate"; exit 1; }
well "certificate renewed"

chart --set config.aggregation.linger=6m --set podAnnotations.rolled=again
for pod in $before; do k wait --for=delete "pod/$pod" --timeout=90s >/dev/null; done # helm does not wait for those who go
well "rolling upgrade of three relays"

nodes=$(k get nodes -o jsonpath='{.items[*].metadata.name}')
if [[ $(wc -w <<<"$nodes") -gt 1 ]]; then
	drained=${nodes##* }
	k drain "$drained" --ignore-daemonsets --delete-emptydir-data --pod-selector=suite=xdsrelay-soak --timeout=3m >/dev/null
	rolled edge-xdsrelay
	well "relays of a node drained"
	k uncordon "$drained" >/dev/null
	drained=
else
	say "one node: none is drained"
fi

k scale deployment/plane --replicas=0 >/dev/null
k wait --for=delete pod -l app=plane --timeout=60s >/dev/null
gone=$(relays | head -n 1)
k delete pod "$gone" --wait >/dev/null
k scale deployment/plane --replicas=1 >/dev/null
rolled edge-xdsrelay plane
well "a relay replaced while the control plane was away"

k delete pod -l app.kubernetes.io/name=xdsrelay --grace-period=0 --force >/dev/null 2>&1
rolled edge-xdsrelay
well "all relays killed at once"
exit "$failed"
