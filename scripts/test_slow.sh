#!/usr/bin/env bash
# Sets up what is missing, then runs the slow tests and the sweeps over many models: hours on two cores.
#
#     scripts/test_slow.sh [--all] [--seed N] [--minutes M] [--fresh] [-- ARGUMENTS OF PYTEST]
#
# It may be stopped at any time: the next run leaves out what has passed since the sources last changed, and --fresh runs it
# again. A table of results by folder ends it. --all runs the everyday tests as well. --seed runs the files in another order.
# After --minutes no further test begins, and the summary says how many are left.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

options=()
which="slow or sweep"
while (($#)); do
    case $1 in
        --seed | --minutes)
            options+=("$1=${2:?$1 takes a number}")
            shift
            ;;
        --seed=* | --minutes=* | --fresh) options+=("$1") ;;
        --all) which="" ;;
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
exec "$python" -m pytest -p _sweep -m "$which" -n auto --maxprocesses 8 --dist worksteal "${options[@]}" "$@"
