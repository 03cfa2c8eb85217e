#!/usr/bin/env bash
# Sets up what is missing, then simulates a batch of quadrupeds. Arguments, if any, replace the ones below.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

use_environment cli
if (($# == 0)); then
    set -- quadruped --batch 4096 --seconds 1 --dt 0.005 --overwrite --out "$root/runs/quadruped"
fi
# The folder of the caller stays the current one, so that a relative --out means what it says.
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m rbd_jax simulate "$@"
