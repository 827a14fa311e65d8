"""Starts processes by `tg launch`, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys

LIMIT = 120.0
"""Seconds after which a launch is ended, and its test fails."""


def launched(*arguments: object, limit: float = LIMIT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `tg launch` with the arguments."""
    command = [sys.executable, "-m", "tensorgrad.tools.tg", "launch", *map(str, arguments)]
    environment = {**os.environ, "TG_GROUP_TIMEOUT": "60", **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=limit)
