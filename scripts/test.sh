#!/usr/bin/env bash
# Sets up what is missing, then runs the tests in parallel. Arguments go on to pytest.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

use_environment test
keep_compiled
cd "$root"
# Each worker holds its own compiled functions: beyond eight they cost more memory than they save time.
exec "$python" -m pytest -n auto --maxprocesses 8 --dist worksteal "$@"
