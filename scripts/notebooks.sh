#!/usr/bin/env bash
# Sets up what is missing, then runs notebooks from top to bottom, two at a time, each in a fresh process: those that are named,
# or all. The results are thrown away; with --keep first they replace the stored ones.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

use_environment docs
cd "$root"
if [[ ${1:-} == --keep ]]; then
    into=(--inplace)
    shift
else
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    into=(--output-dir "$scratch")
fi
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
(($#)) || set -- notebooks/*.ipynb
printf '%s\0' "$@" | xargs -0 -P 2 -I{} \
    "$python" -m nbconvert --log-level WARN --to notebook --execute --ExecutePreprocessor.timeout=600 "${into[@]}" {}
