#!/usr/bin/env bash
# Sets up what is missing, then identifies an arm from the example logs and writes a report. Arguments, if any, replace the ones below.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

use_environment cli
if (($# == 0)); then
    logs=$root/rbd_jax/identify/examples
    set -- arm7 "$logs/arm7_1.npz" --held-out "$logs/arm7_2.npz" --free inertias:hand,friction \
        --overwrite --out "$root/runs/arm7-identified"
fi
# The folder of the caller stays the current one, so that a relative --out means what it says.
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m rbd_jax identify "$@"
