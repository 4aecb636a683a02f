#!/usr/bin/env bash
# Checks what build.sh makes: two builds are the same bytes, Kubernetes understands what the chart
# makes, the program is static, the Debian package installs, the unit is valid and hardened, and the
# image starts, serves and drains.
# What this machine has no tools for is named and left out; STRICT=1 makes that an error.
set -euo pipefail
cd "$(dirname "$0")/../.."
arch=$(go env GOHOSTARCH)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

without() { # TOOL WHAT: is TOOL missing?
	if command -v "$1" >/dev/null; then return 1; fi
	echo "not checked: $2: $1 is not installed" >&2
	[[ -z ${STRICT-} ]] || exit 1
}
unprivileged() { # WHAT: is this not root?
	[[ $(id -u) != 0 ]] || return 1
	echo "not checked: $1: that needs root" >&2
	[[ -z ${STRICT-} ]] || exit 1
}
fail() {
	echo "package check: $*" >&2
	exit 1
}

echo "== two builds have the same bytes"
OUT=dist deploy/package/build.sh >"$tmp/build.log" 2>&1 || { cat "$tmp/build.log" >&2; exit 1; }
OUT=$tmp/again deploy/package/build.sh >"$tmp/build.log" 2>&1 || { cat "$tmp/build.log" >&2; exit 1; }
diff dist/SHA256SUMS "$tmp/again/SHA256SUMS" || fail "the second build differs"
(cd dist && sha256sum --check --quiet SHA256SUMS)
cat dist/SHA256SUMS

echo "== chart"
go -C deploy/helm/check test ./...
tar -C "$tmp" -xzf dist/xdsrelay-chart-*.tgz
grep '^appVersion: ' "$tmp/xdsrelay/Chart.yaml"

echo "== archive"
tar -C "$tmp" -xzf dist/xdsrelay_*_linux_"$arch".tar.gz
folder=$(echo "$tmp"/xdsrelay_*_linux_"$arch")
if ldd "$folder/xdsrelay" >/dev/null 2>&1; then fail "the program is not static"; fi
# A call of a method by its name (templates, for example) has the linker keep all exported methods: half as much again.
size=$(stat -c %s "$folder/xdsrelay")
((size <= 45000000)) || fail "the program has $size bytes, want 45,000,000 at most"
"$folder/xdsrelay" version
"$folder/xdsrelay" validate --config "$folder/examples/minimal.yaml"
"$folder/xdsrelay-demo" --clients 1 --duration 1s >"$tmp/demo.log" 2>&1 || { cat "$tmp/demo.log" >&2; fail "the demo of the archive fails"; }
cmp deploy/prometheus/rules.yaml "$folder/prometheus/rules.yaml"

echo "== Debian package"
root=$tmp/root
without dpkg "the Debian package" || unprivileged "the Debian package" || {
	mkdir -p "$root"/var/lib/dpkg/{info,updates} "$root/etc"
	touch "$root/var/lib/dpkg/status"
	into() { dpkg --root="$root" --log=/dev/null --force-script-chrootless "$@"; }
	into --install dist/xdsrelay_*_"$arch".deb
	into --status xdsrelay | grep -x 'Status: install ok installed'
	"$root/usr/bin/xdsrelay" validate --config "$root/etc/xdsrelay/xdsrelay.yaml"
	cmp deploy/prometheus/rules.yaml "$root/usr/share/xdsrelay/prometheus/rules.yaml"
	without systemd-sysusers "the user of the Debian package" || grep '^xdsrelay:' "$root/etc/passwd" || fail "the package made no user"
	echo "# changed" >>"$root/etc/xdsrelay/xdsrelay.yaml"
}

echo "== unit"
without systemd-analyze "the unit" || {
	verify=$tmp/verify
	mkdir -p "$verify/usr/bin" "$verify/bin" "$verify/usr/lib/systemd/system"
	cp "$folder/xdsrelay" "$verify/usr/bin"
	cp /bin/kill "$verify/bin"
	cp deploy/systemd/xdsrelay.service /usr/lib/systemd/system/*.target "$verify/usr/lib/systemd/system/"
	said=$(systemd-analyze verify --root="$verify" --man=no --recursive-errors=one xdsrelay.service 2>&1) || fail "$said"
	[[ -z $said ]] || fail "$said"
	systemd-analyze security --offline=true --threshold=20 deploy/systemd/xdsrelay.service | tail -n 1
}

without dpkg "how the Debian package goes" || unprivileged "how the Debian package goes" || {
	into --remove xdsrelay
	[[ ! -e $root/usr/bin/xdsrelay ]] || fail "the package leaves its program behind"
	grep -qx '# changed' "$root/etc/xdsrelay/xdsrelay.yaml" || fail "the package takes the configuration away"
	into --purge xdsrelay
	[[ ! -e $root/etc/xdsrelay/xdsrelay.yaml ]] || fail "the configuration stays after a purge"
}

echo "== image"
unprivileged "the image" || without buildah "the image" || without podman "the image" || without runc "the image" || without curl "the image" || deploy/image/check.sh dist/xdsrelay_*_linux_"$arch".oci.tar "$folder/examples"
