#!/usr/bin/env bash
# Sets up what is missing, then runs the slow tests: long sweeps over many models, hours on two cores.
#
#     scripts/test_slow.sh [--third K] [--fresh] [--record] [-- ARGUMENTS OF PYTEST]
#
# It may be stopped at any time: the next run leaves out what has passed since the sources last changed, and --fresh runs it
# again. --third runs one third (0, 1 or 2) of them, about equally long by tests/slow_durations.txt, which --record writes.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

options=()
while (($#)); do
    case $1 in
        --third)
            options+=("--third=${2:?--third takes 0, 1 or 2}")
            shift
            ;;
        --third=* | --fresh | --record) options+=("$1") ;;
        --)
            shift
            break
            ;;
        *)
            echo "error: unknown option $1; what goes to pytest stands after --." >&2
            exit 2
            ;;
    esac
    shift
done

use_environment test,oracles
keep_compiled
cd "$root"
export PYTHONPATH=$root/scripts${PYTHONPATH:+:$PYTHONPATH}
exec "$python" -m pytest -p _sweep -m slow -n auto --maxprocesses 8 --dist worksteal "${options[@]}" "$@"
