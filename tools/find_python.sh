#!/bin/sh
# Prints the first Python that can create the virtual environment: 3.11 or newer, with venv and ensurepip.
# Usage: find_python.sh [PYTHON]; with an argument only that interpreter is considered.

set -u

too_old=""
incomplete=""
for candidate in ${1:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
    # A name may exist and still not run (a shim, a stub that opens a shop), so ask the interpreter itself.
    version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    if ! "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        too_old="$too_old $candidate ($version)"
    elif ! "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
        incomplete="${incomplete:-$version}"
    else
        echo "$candidate"
        exit 0
    fi
done

if [ -n "$incomplete" ]; then
    echo "error: Python $incomplete lacks the venv or ensurepip module;" \
        "on Debian or Ubuntu: apt-get install python$incomplete-venv" >&2
elif [ -n "$too_old" ]; then
    echo "error: Python 3.11 or newer is needed; found only:$too_old. Choose one with: make PYTHON=/path/to/python" >&2
else
    echo "error: no working Python found${1:+ at $1}; install Python 3.11 or newer, or choose one with:" \
        "make PYTHON=/path/to/python" >&2
fi
exit 1
