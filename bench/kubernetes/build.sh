#!/bin/sh
# Builds kube-apiserver, kube-controller-manager and kube-scheduler from Debian's source package `kubernetes`, for
# `npm run prove:kubernetes`. Takes a quarter of an hour, 4 GB of disk and these packages: golang-go, dpkg-dev, rsync, jq,
# and a `deb-src` line of Debian among the sources of apt. Installs nothing.
#
#   bench/kubernetes/build.sh DIRECTORY      then: KUBEBUILDER_ASSETS=DIRECTORY npm run prove:kubernetes
#
# The sources are kept in DIRECTORY/.build, so that a second call goes on where the first one stopped.
set -eu

target=${1:?usage: build.sh DIRECTORY}
mkdir -p "$target/.build"
target=$(cd "$target" && pwd)
cd "$target/.build"

for program in go dpkg-source rsync jq make; do
  command -v "$program" >/dev/null || { echo "build.sh: $program is missing." >&2; exit 2; }
done
if [ ! -d kubernetes ]; then
  ls kubernetes_*.dsc >/dev/null 2>&1 || apt-get source --download-only kubernetes
  rm -rf unpacked reflect2
  dpkg-source -x kubernetes_*.dsc unpacked
  # Its copy of reflect2 writes outside its memory if Go is 1.18 or newer: kube-apiserver crashes at random. Debian has a newer one.
  ls golang-github-modern-go-reflect2-dev_*.deb >/dev/null 2>&1 ||
    apt-get download golang-github-modern-go-reflect2-dev
  dpkg-deb -x golang-github-modern-go-reflect2-dev_*.deb reflect2
  rm -rf unpacked/vendor/github.com/modern-go/reflect2
  mv reflect2/usr/share/gocode/src/github.com/modern-go/reflect2 unpacked/vendor/github.com/modern-go/reflect2
  rm -rf reflect2
  mv unpacked kubernetes
fi

cd kubernetes
export CGO_ENABLED=0 GOPATH="$PWD/.go" GOCACHE="$target/.build/cache" HOME="$target/.build" GOFLAGS="${GOFLAGS:-}"
mkdir -p .go/src/k8s.io
[ -L .go/src/k8s.io/kubernetes ] || ln -s ../../.. .go/src/k8s.io/kubernetes
make WHAT="cmd/kube-apiserver cmd/kube-controller-manager cmd/kube-scheduler"
cp _output/bin/kube-apiserver _output/bin/kube-controller-manager _output/bin/kube-scheduler "$target/"

if [ ! -e "$target/etcd" ]; then
  if etcd=$(command -v etcd); then ln -s "$etcd" "$target/etcd"
  else echo "build.sh: etcd is missing (Debian: etcd-server); put it into $target or the path." >&2; fi
fi
echo "Done: KUBEBUILDER_ASSETS=$target"
