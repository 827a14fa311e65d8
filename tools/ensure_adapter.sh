#!/bin/sh
# Makes sure that WebGPU finds an adapter; where it may (root on Debian or Ubuntu), installs a software one.
# Usage: ensure_adapter.sh PYTHON

set -u

# OpenGL does not count: the runtime needs Vulkan, Metal or Direct3D 12.
has_adapter() {
    "$1" - 2>/dev/null <<'PYTHON'
import sys

import wgpu

adapters = wgpu.gpu.enumerate_adapters_sync()
sys.exit(not any(adapter.info["backend_type"] in ("Vulkan", "Metal", "D3D12") for adapter in adapters))
PYTHON
}

has_adapter "$1" && exit 0

if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "No GPU adapter found; installing Mesa's software Vulkan driver"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet=2 </dev/null && apt-get install --quiet=2 --yes mesa-vulkan-drivers </dev/null || exit 1
    has_adapter "$1" && exit 0
fi

echo "error: WebGPU finds no adapter, and the tests need one. Install a Vulkan driver for your GPU, or a software one:" >&2
echo "  Debian or Ubuntu: sudo apt-get install mesa-vulkan-drivers" >&2
echo "  Fedora:           sudo dnf install mesa-vulkan-drivers" >&2
echo "  Arch:             sudo pacman -S vulkan-swrast" >&2
exit 1
