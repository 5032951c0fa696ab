#!/bin/sh
# Makes a Debian package from the npm package: command line, units, completion, user. Needs dpkg-deb, npm and node.
#
#   deploy/deb.sh [DIRECTORY]     default: dist
#   BERTH_PACKAGE                 a package made by `npm pack` (default: packs this checkout)
#
# Ends with 2 and a list if something is missing.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=${1:-$root/dist}
. "$root/deploy/pieces.sh"

missing=
for tool in dpkg-deb npm node; do command -v "$tool" >/dev/null || missing="$missing $tool"; done
if [ -n "$missing" ]; then
  echo "No package was made. What is missing:$missing" >&2
  exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree

package=$(berth_package "${BERTH_PACKAGE:-}")
npm install --silent --global --prefix "$work/npm" --omit=dev --ignore-scripts --no-audit --no-fund "$package"
berth=$work/npm/lib/node_modules/berth
version=$(node -p 'require(process.argv[1]).version' "$berth/package.json")

install -d "$tree/usr/lib" "$tree/usr/bin" "$tree/usr/lib/systemd/system" "$tree/usr/lib/sysusers.d" "$tree/usr/share/doc/berth"
cp -a "$berth" "$tree/usr/lib/berth"
ln -s ../lib/berth/berth "$tree/usr/bin/berth"
units=$tree/usr/lib/berth/deploy/systemd
install -m 0644 "$units"/*.service "$units"/*.timer "$tree/usr/lib/systemd/system/"
install -m 0644 "$units/berth.sysusers" "$tree/usr/lib/sysusers.d/berth.conf"
install -D -m 0640 "$units/server.env" "$tree/etc/berth/server.env"
install -m 0644 "$berth/LICENSE" "$tree/usr/share/doc/berth/copyright"
install_completion "$tree" "$tree/usr/lib/berth/berth"

install -d "$tree/DEBIAN"
echo /etc/berth/server.env >"$tree/DEBIAN/conffiles"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: berth
Version: $version
Architecture: all
Maintainer: Berth
Section: admin
Priority: optional
Depends: nodejs (>= 20.19)
Recommends: bash-completion
Description: scheduler for scarce machines
 Pools, policies, fair queues and preemption that explains itself.
CONTROL
cat >"$tree/DEBIAN/postinst" <<'POSTINST'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemd-sysusers berth.conf
  chgrp berth /etc/berth/server.env
  systemctl daemon-reload
  systemctl try-restart berth-server.service
fi
POSTINST
cat >"$tree/DEBIAN/prerm" <<'PRERM'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now berth-server.service berth-backup.timer
fi
PRERM
chmod 0755 "$tree/DEBIAN/postinst" "$tree/DEBIAN/prerm"
mkdir -p "$target"
dpkg-deb --root-owner-group --build "$tree" "$target/berth_${version}_all.deb" >/dev/null
echo "built    $target/berth_${version}_all.deb"
