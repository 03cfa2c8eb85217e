#!/usr/bin/env bash
# Sets up what is missing, then finds how an arm throws what it holds into a bin, and writes a report. Arguments, if any, replace the
# ones below.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

use_environment cli
if (($# == 0)); then
    set -- arm7_throw --overwrite --out "$root/runs/arm7_throw-optimized"
fi
# The folder of the caller stays the current one, so that a relative --out means what it says.
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m rbd_jax optimize "$@"
