#!/bin/sh
# Makes sure that there are upstream MLIR's tools, version 19; where it may (root on Debian or Ubuntu), installs them.

set -u

has_tools() {
    for tool in mlir-opt-19 mlir-cpu-runner-19; do
        command -v "$tool" >/dev/null 2>&1 || return 1
    done
}

has_tools && exit 0

if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "No mlir-opt-19 found; installing mlir-19-tools"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet=2 </dev/null && apt-get install --quiet=2 --yes mlir-19-tools </dev/null || exit 1
    has_tools && exit 0
fi

echo "error: there are no mlir-opt-19 and mlir-cpu-runner-19, upstream MLIR's tools, on the PATH. Install them:" >&2
echo "  Debian or Ubuntu: sudo apt-get install mlir-19-tools (where there is none: https://apt.llvm.org)" >&2
exit 1
