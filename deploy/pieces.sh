# What the scripts of this folder have in common; they set `root` and `work`, and source it.

# The npm package: the one that is given, else one of this checkout.
berth_package() {
  if [ -n "${1:-}" ]; then
    echo "$1"
  else
    (cd "$root" && npm pack --silent --pack-destination "$work" >/dev/null)
    echo "$work"/berth-*.tgz
  fi
}

# install_completion TREE BERTH: completion of all shells, where Debian's shells look for it.
install_completion() {
  for shell in bash:usr/share/bash-completion/completions/berth zsh:usr/share/zsh/vendor-completions/_berth \
    fish:usr/share/fish/vendor_completions.d/berth.fish; do
    install -d "$1/$(dirname "${shell#*:}")"
    node "$2" completion "${shell%%:*}" >"$1/${shell#*:}"
  done
}
