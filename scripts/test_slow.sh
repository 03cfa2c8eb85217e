#!/usr/bin/env bash
# Sets up what is missing, then runs the slow tests: long sweeps over many models. Arguments go on to pytest.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

use_environment test,oracles
cd "$root"
exec "$python" -m pytest -m slow -n auto --maxprocesses 8 --dist worksteal "$@"
