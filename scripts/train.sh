#!/usr/bin/env bash
# Sets up what is missing, then learns to swing up the pole of a cart, and writes a report. Arguments, if any, replace the ones
# below.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

use_environment cli,learn
if (($# == 0)); then
    set -- cartpole --overwrite --out "$root/runs/cartpole-trained"
fi
# The folder of the caller stays the current one, so that a relative --out means what it says.
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m rbd_jax train "$@"
