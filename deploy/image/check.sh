#!/usr/bin/env bash
# check.sh ARCHIVE EXAMPLES: starts the image in ARCHIVE, read-only and as its own user, with the
# files of EXAMPLES as its control plane; asks for its health, and ends it.
set -euo pipefail
archive=$1 examples=$(realpath "$2")
tmp=$(mktemp -d)
store=(--root "$tmp/images" --runroot "$tmp/run" --storage-driver vfs)
pid=
finish() {
	[[ -z $pid ]] || kill "$pid" 2>/dev/null || true
	podman "${store[@]}" rm --force --all --time 1 >/dev/null 2>&1 || true
	rm -rf "$tmp"
}
trap finish EXIT
fail() {
	echo "image check: $*" >&2
	cat "$tmp/log" >&2 || true
	exit 1
}
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

admin=127.0.0.1:$(free)
mkdir "$tmp/etc"
cat >"$tmp/etc/xdsrelay.yaml" <<Y
server: {listen: "127.0.0.1:0", drain: 1s}
admin: {listen: "$admin"}
upstreams: [{name: files, default: true, path: /etc/xdsrelay/resources}]
Y
cp -r "$examples/resources" "$tmp/etc"
chmod -R a+rX "$tmp/etc"

image=$(podman "${store[@]}" load --quiet --input "$archive")
image=${image#Loaded image: }
podman "${store[@]}" image inspect --format '{{.Digest}} user {{.User}} {{.Labels}}' "$image"
podman "${store[@]}" --runtime runc run --name relay --network host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
	--read-only --cap-drop all --security-opt no-new-privileges --volume "$tmp/etc:/etc/xdsrelay:ro" "$image" >"$tmp/log" 2>&1 &
pid=$!
for _ in $(seq 100); do
	if curl -fs "http://$admin/readyz"; then break; fi
	kill -0 "$pid" 2>/dev/null || fail "the relay ended"
	sleep 0.1
done
curl -fs "http://$admin/livez" || fail "the relay is not live"
echo
uid=$(podman "${store[@]}" --runtime runc top relay huser | tail -n 1)
[[ $uid = 65532 ]] || fail "the relay runs as $uid"
podman "${store[@]}" --runtime runc kill --signal TERM relay >/dev/null
code=0
wait "$pid" || code=$?
pid=
[[ $code = 0 ]] || fail "the relay ended with $code"
grep -m 1 -o 'msg=.*drain.*' "$tmp/log" || fail "the relay did not drain"
