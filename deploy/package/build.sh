#!/usr/bin/env bash
# Builds into dist/ what a release has: for each architecture an archive, a Debian package, an
# image where buildah is installed, and the list of all modules in the program (SBOM); the chart;
# and the checksums of all. The same commit gives the same bytes.
#   OUT      folder, dist if it is not set
#   ARCHES   "amd64 arm64" if it is not set
#   VERSION  as make build has it
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-dist} arches=${ARCHES:-amd64 arm64}
version=${VERSION:-$(git describe --tags --always --dirty)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
case $version in
v[0-9]*) number=${version#v} ;;
*) number=0.0.0~g$version ;; # Debian's versions begin with a digit
esac
# Without -trimpath the program that writes the SBOM differs by folder, and the SBOM has its checksum.
tool() { GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath" go tool -modfile=deploy/package/go.mod "$@"; }
# Owner, times and order of files would differ from machine to machine.
archive() { tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" "$@"; }

mkdir -p "$out"
rm -f "$out"/xdsrelay[_-]* "$out"/SHA256SUMS
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

make --no-print-directory build VERSION="$version" BIN="$stage/native"
mkdir "$stage/completions"
"$stage/native" completion bash >"$stage/completions/xdsrelay.bash"
"$stage/native" completion zsh >"$stage/completions/_xdsrelay"
"$stage/native" completion fish >"$stage/completions/xdsrelay.fish"

for arch in $arches; do
	name=xdsrelay_${version#v}_linux_$arch
	to=$stage/$name
	mkdir "$to"
	GOOS=linux GOARCH=$arch make --no-print-directory build VERSION="$version" BIN="$to/xdsrelay"
	GOOS=linux GOARCH=$arch make --no-print-directory build VERSION="$version" BIN="$to/xdsrelay-demo" PROGRAM=./cmd/xdsrelay-demo
	cp -r LICENSE README.md CHANGELOG.md examples deploy/systemd/xdsrelay.service "$stage/completions" "$to"
	mkdir "$to/prometheus"
	cp deploy/prometheus/rules.yaml "$to/prometheus"
	archive -C "$stage" -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
	tool cyclonedx-gomod bin -json -std -noserial -notimestamp -version "$version" -output "$out/$name.cdx.json" "$to/xdsrelay"
	ARCH=$arch DEB_VERSION=$number STAGE=$to COMPLETIONS=$stage/completions \
		tool nfpm package --config deploy/package/nfpm.yaml --packager deb --target "$out/xdsrelay_${number}_$arch.deb"
	if ! command -v buildah >/dev/null; then
		echo "no image for $arch: buildah is not installed" >&2
		continue
	fi
	mkdir "$to/image"
	cp "$to/xdsrelay" "$to/image"
	store=(--root "$stage/images" --runroot "$stage/run" --storage-driver vfs)
	buildah "${store[@]}" build --quiet --isolation chroot --platform "linux/$arch" --timestamp "$SOURCE_DATE_EPOCH" --identity-label=false \
		--label org.opencontainers.image.title=xdsrelay \
		--label org.opencontainers.image.description='Caching relay for xDS' \
		--label org.opencontainers.image.source=https://github.com/xdsrelay/xdsrelay \
		--label org.opencontainers.image.licenses=Apache-2.0 \
		--label org.opencontainers.image.version="$version" \
		--label org.opencontainers.image.revision="$(git rev-parse HEAD)" \
		--file deploy/image/Containerfile --tag "localhost/xdsrelay:${version#v}" "$to/image" >/dev/null
	buildah "${store[@]}" push --quiet "localhost/xdsrelay:${version#v}" "oci:$to/oci:localhost/xdsrelay:${version#v}"
	archive -C "$to/oci" -cf "$out/$name.oci.tar" .
done

# The chart is for the image of the same version.
chart=${number/\~/-} # semantic versions have - where Debian's have ~
cp -r deploy/helm/xdsrelay "$stage/xdsrelay"
sed -i -e "s/^version: .*/version: $chart/" -e "s/^appVersion: .*/appVersion: \"${version#v}\"/" -e '/^# make package writes/d' "$stage/xdsrelay/Chart.yaml"
archive -C "$stage" -cf - xdsrelay | gzip -9n >"$out/xdsrelay-chart-$chart.tgz"

(cd "$out" && sha256sum xdsrelay[_-]* >SHA256SUMS)
ls -l "$out"
