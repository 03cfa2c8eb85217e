#!/usr/bin/env bash
# Sets up what is missing, then builds the documentation site into site/ and checks the links in it; warnings are errors. With `serve`
# it shows the site at http://127.0.0.1:8000 instead, and builds it anew when a page changes. Neither needs a network.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

use_environment docs
cd "$root"
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} JAX_PLATFORMS=cpu NO_MKDOCS_2_WARNING=1
"$python" scripts/docs_film.py
if [[ ${1:-} == serve ]]; then
    exec "$python" -m mkdocs serve "${@:2}"
fi
"$python" -m mkdocs --quiet build --strict --clean "$@"
"$python" scripts/check_links.py site
