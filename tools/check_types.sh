#!/bin/sh
# Runs pyright over the project; warnings are errors. Run it in the project's root.
# Usage: check_types.sh VENV_BIN [changed]
#
# With "changed", of all but the package (tests, examples, benchmarks) only the files that differ from origin/main, or
# from the commit before if that is where we are: the others take as long as the package. Without origin/main, all.
#
# Pyright tells types apart by file, so it must see each module at one place only: under the name it is imported by.
# build/types/tensorgrad is that place, made of links; messages name the real files.

set -eu

tree=build/types/tensorgrad
rm -rf build/types
find frontend dialects passes interpreters checks runtime tools lab web/__init__.py -name '*.py' -o -name '*.pyi' -o -name py.typed | while read -r path; do
    link=$tree/${path#frontend/}
    mkdir -p "$(dirname "$link")"
    ln -s "$PWD/$path" "$link"
done

files=
if [ "${2-}" = changed ] && base=$(git merge-base origin/main HEAD 2>/dev/null); then
    [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse --quiet --verify HEAD~1 || echo "$base")
    others='tests/*.py examples/*.py benchmarks/*.py distribution/*.py :!tests/types'
    # shellcheck disable=SC2086  # these are words
    files=$(git diff --name-only --diff-filter=d "$base" -- $others && git ls-files --others --exclude-standard -- $others)
    files="$tree $files"
fi

status=0
# shellcheck disable=SC2086  # no file has a space in its name
output=$(PYRIGHT_PYTHON_IGNORE_WARNINGS=1 "$1/pyright" --pythonpath "$1/python" --warnings $files) || status=$?
printf '%s\n' "$output" | sed -E \
    -e "s,$tree/(dialects|passes|interpreters|checks|runtime|tools|lab|web)/,\\1/,g" \
    -e "s,$tree/,frontend/,g"
exit "$status"
