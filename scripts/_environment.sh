# Sourced by the scripts beside it: finds or makes the environment that they run in.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Prints a Python of version 3.11 or later. A command can be there and still not run (a version manager's stub), so each
# candidate is asked.
find_python() {
    local candidate
    for candidate in python3.11 python3 python python3.12 python3.13 python3.14; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' </dev/null >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    echo "error: Python 3.11 or later is needed, and no python3.11, python3 or python on PATH is one." >&2
    return 1
}

# make_environment FOLDER: a virtual environment there, or a message that says what is missing.
make_environment() {
    local base
    base=$(find_python)
    echo "Making $1" >&2
    if ! "$base" -m venv "$1"; then
        echo "error: '$base -m venv' failed. On Debian and Ubuntu the package python3-venv provides it." >&2
        return 1
    fi
}

# use_environment [EXTRAS]: sets `python` to an interpreter with this checkout and the named extras installed.
#
# RBD_JAX_PYTHON names one to take as it is. Otherwise it is that of .venv in the checkout, made on first use and brought
# up to date when pyproject.toml has changed since. A merely active environment is not used: it may lack the packages,
# and installing into it is not ours to do.
use_environment() {
    local extras=${1:-} environment=$root/.venv stamp
    if [[ -n ${RBD_JAX_PYTHON:-} ]]; then
        if ! "$RBD_JAX_PYTHON" -c '' </dev/null; then
            echo "error: RBD_JAX_PYTHON=$RBD_JAX_PYTHON does not run." >&2
            return 1
        fi
        python=$RBD_JAX_PYTHON
        return
    fi

    python=$environment/bin/python
    stamp=$environment/installed-${extras:-plain}.toml
    if [[ -x $python ]] && cmp -s "$root/pyproject.toml" "$stamp"; then
        return
    fi
    # One whose making was interrupted has no pip yet; making it again completes it.
    if ! "$python" -m pip --version </dev/null >/dev/null 2>&1; then
        make_environment "$environment"
    fi
    # Without its pyvenv.cfg a folder's python is the one of the whole machine, where nothing may be installed.
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) or sys.prefix == sys.base_prefix)' </dev/null; then
        echo "error: $environment is not a virtual environment of Python 3.11 or later; remove it and run again." >&2
        return 1
    fi
    echo "Installing rbd_jax${extras:+[$extras]} (a few minutes the first time)" >&2
    "$python" -m pip install --quiet --disable-pip-version-check --editable "$root${extras:+[$extras]}" </dev/null
    cp "$root/pyproject.toml" "$stamp"
}

# keep_compiled: tests that run again load what they compiled before. In CI they compile all they test, and a folder that
# JAX_COMPILATION_CACHE_DIR already names is taken as it is.
#
# JAX adds to the folder and removes nothing: when it has grown beyond 4 GB it starts anew. A home that several machines share
# has a folder for each, as the code is for the processor that compiled it.
keep_compiled() {
    if [[ -n ${CI:-} || -n ${JAX_COMPILATION_CACHE_DIR:-} ]]; then
        return
    fi
    local folder=${XDG_CACHE_HOME:-${HOME:?}/.cache}/rbd_jax/compiled-tests/$(uname -n)
    if [[ -d $folder ]] && (($(du -sm "$folder" | cut -f1) > 4096)); then
        echo "Emptying $folder" >&2
        rm -rf "$folder"
    fi
    mkdir -p "$folder"
    export JAX_COMPILATION_CACHE_DIR=$folder
}
