#!/bin/sh
# Runs pyright over the project, or only over some paths; warnings are errors. Run it in the project's root.
# Usage: check_types.sh VENV_BIN [PATH...]
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

bin=$1
shift
status=0
output=$(PYRIGHT_PYTHON_IGNORE_WARNINGS=1 "$bin/pyright" --pythonpath "$bin/python" --warnings "$@") || status=$?
printf '%s\n' "$output" | sed -E \
    -e "s,$tree/(dialects|passes|interpreters|checks|runtime|tools|lab|web)/,\\1/,g" \
    -e "s,$tree/,frontend/,g"
exit "$status"
