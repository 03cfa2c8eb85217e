#!/usr/bin/env bash
# Sets up what is missing, then runs the slow tests: long sweeps over many models, hours on two cores.
#
#     scripts/test_slow.sh [--part K/N] [--minutes M] [--fresh] [--record] [-- ARGUMENTS OF PYTEST]
#
# It may be stopped at any time: the next run leaves out what has passed since the sources last changed, and --fresh runs it
# again. --part 0/6 runs the first of six parts, about equally long by tests/slow_durations.txt, which --record writes. After
# --minutes no further test begins, and the summary says how many are left.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

options=()
while (($#)); do
    case $1 in
        --part)
            options+=("--part=${2:?--part takes a number from 0 and how many there are, as 0/6}")
            shift
            ;;
        --minutes)
            options+=("--minutes=${2:?--minutes takes a number}")
            shift
            ;;
        --part=* | --minutes=* | --fresh | --record) options+=("$1") ;;
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
