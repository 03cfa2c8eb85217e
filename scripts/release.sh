#!/usr/bin/env bash
# Builds a release in dist/: a wheel and a source distribution of a clean, tagged tree, tested in fresh environments.
# Usage: bash scripts/release.sh [--no-tests]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"
cd "$root"

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' rbd_jax/__init__.py)
[[ -n $version ]] || { echo "release: no version found" >&2; exit 1; }
[[ -z $(git status --porcelain) ]] || { echo "release: the tree has changes; commit them first" >&2; exit 1; }
grep -q "^## \[$version\]" CHANGELOG.md || { echo "release: CHANGELOG.md has no section [$version]" >&2; exit 1; }
if tag=$(git describe --exact-match --tags 2>/dev/null) && [[ $tag != "v$version" ]]; then
    echo "release: the tag is $tag and the version $version" >&2
    exit 1
fi

[[ ${1:-} == --no-tests ]] || bash scripts/test.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make_environment "$work/build"
"$work/build/bin/python" -m pip install --quiet --disable-pip-version-check build
rm -rf dist
"$work/build/bin/python" -m build --outdir dist .

for file in dist/*; do
    make_environment "$work/fresh"
    "$work/fresh/bin/python" -m pip install --quiet --disable-pip-version-check "$file"
    (cd "$work" && "$work/fresh/bin/python" "$root/scripts/smoke.py")
    rm -rf "$work/fresh"
done
echo "dist/ holds $version; tag it with: git tag v$version"
