#!/bin/sh
# Runs ZenML itself on Berth: its SQL store, its client and dynamic pipelines, with the plug-in of this folder.
#
#   ZENML_SOURCE   a checkout of zenml (0.96 or newer)
#   ZENML_PYTHON   a Python that has zenml's dependencies (those of zenml[local])
#   PYTHONPATH     is passed on, for what is installed elsewhere
#
# Ends with 0 if all stories came out, 1 if one did not, 2 if something is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

missing=
note() {
  missing="$missing
  - $1"
}
[ -n "${ZENML_SOURCE:-}" ] || note "ZENML_SOURCE: a checkout of zenml"
[ -z "${ZENML_SOURCE:-}" ] || [ -f "$ZENML_SOURCE/src/zenml/VERSION" ] || note "src/zenml in ZENML_SOURCE ($ZENML_SOURCE)"
[ -n "${ZENML_PYTHON:-}" ] || note "ZENML_PYTHON: a Python with zenml's dependencies"
[ -f "$root/dist/cli/berth.js" ] || note "a built berth: npm ci in $root"
if [ -n "${ZENML_PYTHON:-}" ]; then
  for module in pydantic sqlalchemy sqlmodel alembic sqlalchemy_utils; do
    "$ZENML_PYTHON" -c "import $module" 2>/dev/null || note "the Python module $module in $ZENML_PYTHON"
  done
fi
if [ -n "$missing" ]; then
  printf 'Not proven. What is missing:%s\n' "$missing" >&2
  exit 2
fi

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export HOME="$home" ZENML_CONFIG_PATH="$home/zenml" ZENML_ANALYTICS_OPT_IN=false AUTO_OPEN_DASHBOARD=false
export ZENML_DISABLE_STEP_LOGS_STORAGE=true ZENML_DISABLE_PIPELINE_LOGS_STORAGE=true ZENML_LOGGING_VERBOSITY=WARN
export PYTHONPATH="$here:$root/clients/python:$root/clients/python/tests:$ZENML_SOURCE/src${PYTHONPATH:+:$PYTHONPATH}"
export PROVE_MARKS="$home/marks"
mkdir "$home/.zen" "$PROVE_MARKS"
cp "$here/prove_pipelines.py" "$home" # ZenML looks for steps below the directory of .zen.
cd "$home"
PYTHONPATH="$home:$PYTHONPATH" "$ZENML_PYTHON" "$here/prove.py"
