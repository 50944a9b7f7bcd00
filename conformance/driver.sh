# Sourced by the `run` of each folder, which then calls: drive FOLDER SCRIPT [BINARY [ARGUMENT...]]
set -euo pipefail

# Installs the packages of the folder's package.json under target/; NODE_PACKAGES is where they are.
node_packages() {
  local here place
  here=$(cd "$1" && pwd)
  place=${CARGO_TARGET_DIR:-$(cd "$here/../.." && pwd)/target}/conformance-$(basename "$here")-node
  if ! cmp -s "$here/package.json" "$place/installed.json"; then
    mkdir -p "$place"
    cp "$here/package.json" "$place/package.json"
    npm install --prefix "$place" --silent --no-audit --no-fund --no-package-lock || exit 2
    cp "$here/package.json" "$place/installed.json"
  fi
  export NODE_PACKAGES=$place/node_modules
}

# Makes the folder's virtual environment under target/, and runs its script against the binary.
drive() {
  local here root target binary venv
  here=$(cd "$1" && pwd)
  root=$(cd "$here/../.." && pwd)
  target=${CARGO_TARGET_DIR:-$root/target}
  binary=${3:-$target/debug/windlass}
  [ -x "$binary" ] || { echo "no program at $binary: run 'cargo build' first" >&2; exit 2; }

  venv=$target/conformance-$(basename "$here")
  # The copy is made last, so that an installation that was interrupted is not taken for a whole one.
  if ! cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then
    python3 -m venv "$venv" || exit 2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade -r "$here/requirements.txt" || exit 2
    cp "$here/requirements.txt" "$venv/requirements.txt"
  fi
  # What the folders share lies beside them.
  PYTHONPATH=$here/.. exec "$venv/bin/python" "$here/$2" "$binary" "${@:4}"
}
