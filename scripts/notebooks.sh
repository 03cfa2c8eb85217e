#!/usr/bin/env bash
# Sets up what is missing, then runs the notebooks from top to bottom, two at a time, each in a fresh process. The results are
# thrown away; with --keep they replace the stored ones.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

use_environment docs
cd "$root"
if [[ ${1:-} == --keep ]]; then
    into=(--inplace)
else
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    into=(--output-dir "$scratch")
fi
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
printf '%s\0' notebooks/*.ipynb | xargs -0 -P 2 -I{} \
    "$python" -m nbconvert --log-level WARN --to notebook --execute --ExecutePreprocessor.timeout=600 "${into[@]}" {}
