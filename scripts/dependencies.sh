#!/usr/bin/env bash
# Tests the library with the lowest versions of what it depends on that solve together, and with the newest, in each Python that is
# on this machine, from 3.11 on.
#
#     scripts/dependencies.sh [--pythons 3.11,3.13] [--versions lowest,newest] [ARGUMENTS OF PYTEST]
#
# Without arguments for pytest a few files of every room are run, some minutes for each pair.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

pythons=3.11,3.12,3.13
versions=lowest,newest
while (($#)); do
    case $1 in
        --pythons) pythons=${2:?--pythons takes versions, as 3.11,3.13} && shift ;;
        --versions) versions=${2:?--versions takes lowest, newest or both} && shift ;;
        *) break ;;
    esac
    shift
done
if ! (($#)); then
    set -- tests/test_callable.py tests/test_public_names.py tests/test_command_line.py tests/test_checked.py tests/dynamics/test_motion.py \
        tests/simulate/test_step.py tests/simulate/test_adaptive.py tests/files/test_writing.py tests/interop tests/robots \
        tests/robustness/test_mutated_files.py tests/identify/test_good_logs.py tests/identify/test_posterior.py \
        tests/control/test_problems.py tests/tasks tests/compiler/test_without_kernels.py tests/parallel/test_fused.py \
        tests/view/test_plots.py tests/view/test_films.py tests/view/test_viewer.py
fi

# The interpreter of a version: one on PATH that runs (a version manager's stub may not), or one that pyenv keeps.
interpreter() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/"$1".*/bin/python; do
        if "$candidate" -c '' </dev/null >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make_environment "$work/uv"
"$work/uv/bin/python" -m pip install --quiet --disable-pip-version-check uv
uv=$work/uv/bin/uv

failed=0
for version in ${pythons//,/ }; do
    for which in ${versions//,/ }; do
        environment=$work/$version-$which
        if ! base=$(interpreter "$version"); then
            echo "== Python $version: it is not on this machine"
            break
        fi
        "$uv" venv --quiet --python "$base" "$environment"
        resolution=highest
        [[ $which == lowest ]] && resolution=lowest-direct
        "$uv" pip install --quiet --python "$environment/bin/python" --resolution "$resolution" "${root}[test]"
        listed=$("$uv" pip list --python "$environment/bin/python" --format freeze 2>/dev/null |
            grep -E '^(jax|jaxlib|llvmlite|numpy|scipy|equinox|mujoco|pin|matplotlib)==' | tr '\n' ' ')
        echo "== Python $version, $which: $listed"
        if (cd "$root" && "$environment/bin/python" -m pytest -q -n 2 --no-header -p no:warnings "$@"); then
            echo "== Python $version, $which: passed"
        else
            echo "== Python $version, $which: FAILED"
            failed=1
        fi
    done
done
exit "$failed"
