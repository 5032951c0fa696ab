#!/bin/sh
# Installs the npm package into an empty prefix, without development packages, and types the README's first five
# minutes there. Needs npm and its registry; ends with 2 if they are missing, 1 if something differs.
#
#   deploy/prove-package.sh [berth-VERSION.tgz]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
. "$root/deploy/pieces.sh"
package=$(berth_package "${1:-}")

if ! npm install --silent --global --prefix "$work/prefix" --omit=dev --no-audit --no-fund "$package"; then
  echo "Not proven: npm could not install $package." >&2
  exit 2
fi
export HOME="$work/home" PATH="$work/prefix/bin:$PATH" BERTH_COLOR=never
unset BERTH_URL BERTH_API_TOKEN BERTH_COMPONENT BERTH_CONTEXT XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME || true
export USER=alice
mkdir "$HOME"
cd "$HOME"
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
failed=0
end() {
  berth down >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap end EXIT

# check WHAT PATTERN OUTPUT
check() {
  if printf '%s\n' "$3" | grep -q -- "$2"; then
    echo "ok    $1"
  else
    echo "FAIL  $1: expected \"$2\" in:"
    printf '%s\n' "$3"
    failed=1
  fi
}
# wait_for PATTERN COMMAND…
wait_for() {
  pattern=$1
  shift
  for _ in $(seq 1 300); do
    if "$@" 2>&1 | grep -q -- "$pattern"; then return 0; fi
    sleep 0.2
  done
  echo "FAIL  waited in vain for \"$pattern\" from: $*"
  failed=1
}

installed=$work/prefix/lib/node_modules/berth
check "no development packages" "^0$" "$(find "$installed/node_modules" -maxdepth 1 -name vitest -o -maxdepth 1 -name typescript | wc -l | tr -d ' ')"
for link in $(grep -o '](docs/[^)#]*' "$installed/README.md" | cut -c3-) ARCHITECTURE.md; do
  [ -e "$installed/$link" ] || { echo "FAIL  README links to $link, which is not in the package"; failed=1; }
done
echo "ok    what README links to is in the package"
check "berth --version" "^[0-9]" "$(berth --version)"
check "berth demo" "berth " "$(berth demo 2>&1 | tail -5)"
check "npx berth demo" "berth " "$(cd "$work" && npx --yes --package="$package" berth demo 2>&1 | tail -5)"
check "berth up" "gpu 2" "$(berth up --capacity gpu=2 --detach --port "$port" 2>&1)"
check "berth run" "^hello$" "$(berth run --gpu 1 -- echo hello 2>/dev/null)"
berth run --gpu 2 --name train -- sleep 600 >/dev/null 2>&1 &
train=$!
wait_for "train *allocated" berth ps
berth run --gpu 1 --name eval -- echo evaluated >"$work/eval" 2>&1 &
eval_run=$!
wait_for "eval *queued" berth ps
check "berth why" "waits for 1 gpu in pool local" "$(berth why eval)"
check "a more important job" "^now$" "$(berth run --component urgent --gpu 2 -- echo now 2>/dev/null)"
wait_for "2$" berth ps --all --columns name,attempt
check "train runs again" "train *allocated *alice *2" "$(berth ps --all --columns name,status,component,attempt)"
berth cancel train -y >/dev/null 2>&1
wait "$train" || true
wait "$eval_run" || true
check "then eval runs" "^evaluated$" "$(cat "$work/eval")"
check "berth doctor" "server" "$(berth doctor 2>&1)"
check "berth down" "Stopped" "$(berth down)"
[ "$failed" = 0 ] && echo "The package works."
exit "$failed"
