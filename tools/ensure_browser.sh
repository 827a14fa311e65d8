#!/bin/sh
# Makes sure that there is a headless Chromium; where it may (root on Debian or Ubuntu), installs one.

set -u

has_browser() {
    [ -x /usr/lib/chromium/chromium-headless-shell ] || command -v chromium >/dev/null 2>&1 ||
        command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1
}

has_browser && exit 0

if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "No Chromium found; installing a headless one"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet=2 </dev/null || exit 1
    apt-get install --quiet=2 --yes --no-install-recommends chromium-headless-shell </dev/null ||
        apt-get install --quiet=2 --yes --no-install-recommends chromium </dev/null || exit 1
    has_browser && exit 0
fi

echo "error: the tests of pages need Chromium. Install it:" >&2
echo "  Debian or Ubuntu: sudo apt-get install chromium" >&2
echo "  Fedora:           sudo dnf install chromium" >&2
echo "  macOS:            brew install --cask chromium" >&2
exit 1
