#!/bin/sh
# Builds an OCI image without a daemon: a Debian base by debootstrap, the npm package, umoci.
#
#   deploy/image/build.sh [DIRECTORY]     an OCI layout with the tag `berth`; default: dist/image
#
#   BERTH_PACKAGE     a package made by `npm pack` (default: packs this checkout)
#   BERTH_BASE        a root file system with nodejs, instead of debootstrap
#   DEBIAN_MIRROR     passed to debootstrap
#
# Needs root. Ends with 2 and a list if something is missing.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
layout=${1:-$root/dist/image}
suite=trixie # Its nodejs is 20.19.
uid=10001
. "$root/deploy/pieces.sh"

missing=
for tool in umoci npm node tar; do command -v "$tool" >/dev/null || missing="$missing $tool"; done
[ -n "${BERTH_BASE:-}" ] || command -v debootstrap >/dev/null || missing="$missing debootstrap"
[ "$(id -u)" = 0 ] || missing="$missing root"
if [ -n "$missing" ]; then
  echo "No image was built. What is missing:$missing" >&2
  exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
base=$work/base

if [ -n "${BERTH_BASE:-}" ]; then
  cp -a "$BERTH_BASE" "$base"
else
  debootstrap --variant=minbase --include=nodejs,ca-certificates "$suite" "$base" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$work/debootstrap.log" ||
    { tail -20 "$work/debootstrap.log" >&2; exit 1; }
fi

package=$(berth_package "${BERTH_PACKAGE:-}")
npm install --silent --global --prefix "$base/usr/local" --omit=dev --ignore-scripts --no-audit --no-fund "$package"

echo "berth:x:$uid:$uid:Berth:/var/lib/berth:/usr/sbin/nologin" >>"$base/etc/passwd"
echo "berth:x:$uid:" >>"$base/etc/group"
install -d -m 0700 -o "$uid" -g "$uid" "$base/var/lib/berth"
install_completion "$base" "$base/usr/local/lib/node_modules/berth/berth"
# What a server never reads.
rm -rf "$base"/var/cache/apt/* "$base"/var/lib/apt/lists/* "$base"/usr/share/doc/* "$base"/usr/share/man/* "$base"/usr/share/locale/*
rm -rf "${base:?}"/dev/* "$base"/proc/* "$base"/sys/* "$base"/tmp/*

rm -rf "$layout"
umoci init --layout "$layout"
umoci new --image "$layout:berth"
umoci unpack --image "$layout:berth" "$work/bundle"
cp -a "$base/." "$work/bundle/rootfs/"
umoci repack --image "$layout:berth" "$work/bundle"
umoci config --image "$layout:berth" --author Berth \
  --config.user "$uid:$uid" --config.workingdir /var/lib/berth \
  --config.env HOME=/var/lib/berth --config.env PATH=/usr/local/bin:/usr/bin:/bin --config.env NODE_ENV=production \
  --config.entrypoint /usr/local/bin/berth --config.cmd serve --config.cmd --data-dir --config.cmd /var/lib/berth \
  --config.cmd --listen --config.cmd 0.0.0.0:7770 --config.cmd --insecure-bind \
  --config.exposedports 7770/tcp --config.volume /var/lib/berth
umoci gc --layout "$layout"
echo "built    $layout:berth ($(du -sh "$layout" | cut -f1))"
