#!/usr/bin/env bash
# Runs the end-to-end tests with everything that belongs to them: installs and
# builds the gRPC clients for Node, Python and Java, the control planes that are programs
# of their own, and an Envoy, runs the tests so that none is skipped for want of a tool,
# and lists what ran and what could not.
set -euo pipefail
cd "$(dirname "$0")"

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

# The virtual environment is made anew if the requirements are not the ones that it
# was made from, or if its Python is gone.
python_packages() {
  cd testdata/python
  if ! cmp -s requirements.txt venv/.installed || ! venv/bin/python -c 'import grpc' 2>/dev/null; then
    echo "installing Python packages into integration/testdata/python/venv:"
    python3 -m venv --clear venv
    venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r requirements.txt
    cp requirements.txt venv/.installed
  fi
  echo "Python packages:"
  venv/bin/pip freeze --disable-pip-version-check
}

# A Java program of testdata is built again only if its sources or its pom are not
# the ones that it was built from: Maven takes its time, also where nothing changed.
java_program() (
  folder=testdata/$1
  cd "$folder"
  sources=$(find pom.xml src -type f | LC_ALL=C sort | xargs sha256sum)
  if [[ ! -f target/built || $(<target/built) != "$sources" ]]; then
    echo "building integration/$folder with Maven:"
    rm -rf target
    mvn --batch-mode --quiet --no-transfer-progress compile jar:jar dependency:copy-dependencies
    echo "$sources" >target/built
  fi
)

# An archive of the classes that a short run loads halves the time that a program
# takes to start. It is good only for the path of the program by which it was made.
java_archive() {
  local program=testdata/$1/target/$2
  shift 2
  if [[ ! -f $program.jsa ]]; then
    java -XX:+UseSerialGC -XX:ArchiveClassesAtExit="$program.new" -Xlog:disable -Xlog:all=error:stderr \
      -jar "$program.jar" "$@" >/dev/null
    mv "$program.new" "$program.jsa"
  fi
}

# The client's short run is an RPC that fails, since nobody listens on port 1. The
# end of the input would end the client before that.
java_client() {
  java_program grpcjava
  GRPC_XDS_BOOTSTRAP_CONFIG='{
    "node": {"id": "archive"},
    "xds_servers": [{"server_uri": "127.0.0.1:1", "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}]
  }' java_archive grpcjava client /service/method 5000 < <(echo xds:///service; sleep 5)
  echo "gRPC for Java:"
  (cd testdata/grpcjava/target/lib && ls grpc-xds-*.jar)
}

java_control_plane() {
  java_program javacontrolplane
  java_archive javacontrolplane server 0 <<<'{"version": "1", "resources": []}'
  echo "java-control-plane:"
  (cd testdata/javacontrolplane/target/lib && ls server-*.jar)
}

go_control_plane() {
  cd testdata/gcp0103
  go build -o target/server .
  echo "go-control-plane:"
  go list -m github.com/envoyproxy/go-control-plane
}

# What cannot be installed or built does not stop this: the tests tell what is missing,
# list it and fail. (After || or if, bash would not stop in a function either.)
set +e
(set -e && node_packages)
(set -e && python_packages)
(set -e && java_client)
(set -e && java_control_plane)
(set -e && go_control_plane)
set -e

report=$(mktemp)
trap 'rm -f "$report"' EXIT
result=0
# Real Envoys come last and by themselves: their tests are about time.
packages=$(go list ./... | grep -v '/integration/envoy$')
# shellcheck disable=SC2086 # one word each
XDSRELAY_INTEGRATION_REPORT=$report go test -timeout 30m $packages || result=$?
if [[ -s $report ]]; then
  echo "gRPC clients and control planes:"
  cat "$report"
else
  echo "no list of gRPC clients and control planes: the tests did not get that far" >&2
  result=1
fi
./envoy.sh || result=1
exit "$result"
