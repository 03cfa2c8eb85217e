#!/usr/bin/env bash
# Sets up what is missing, then looks for what breaks the library, for an hour or as long as it is told.
#
#     scripts/soak.sh [--minutes 60] [--seed 0] [--jobs files,calls] [--out runs/soak] [--resume]
#     scripts/soak.sh --case files:1234 [--seed 0]        # one case again, in this process
#
# The report is OUT/report.md. It may be stopped at any time: --resume goes on.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

use_environment test
cd "$root"
export PYTHONPATH=$root/scripts:$root${PYTHONPATH:+:$PYTHONPATH}
exec "$python" scripts/_soak.py "$@"
