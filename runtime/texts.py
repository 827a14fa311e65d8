"""Text and JSON of files from elsewhere."""

from __future__ import annotations

import json
import os
import re
from itertools import chain
from pathlib import Path
from typing import Any

from tensorgrad.runtime.errors import TensorgradError

MOST_NESTED = 100
"""The most lists and objects inside each other that JSON in files may have."""
CONTAINERS = (dict, list, tuple)
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape in JSON for a half of a character; without the other half it is not Unicode."""


def parsed_json(text: str) -> Any:
    """Returns the value of untrusted JSON text.

    Raises:
        ValueError: It is not JSON, nests too deeply, or has text that is not Unicode.
    """
    try:
        value = json.loads(text)
    except (RecursionError, MemoryError) as error:
        raise ValueError(f"it is nested too deeply: {error}") from None
    _check_json(value, text)
    return value


def json_text(value: Any) -> str:
    """Returns a value as JSON text that `parsed_json` reads.

    Raises:
        TypeError, ValueError: JSON has no such value, or it is not one that `parsed_json` reads.
    """
    text = json.dumps(value, allow_nan=False)
    _check_json(value, text)
    return text


def _check_json(value: Any, text: str) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MOST_NESTED:
            raise ValueError(f"it is nested too deeply: in more than {MOST_NESTED} lists and objects")
        parts = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, CONTAINERS))
        level = list(chain.from_iterable(parts))
    try:
        text.encode()
        if SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"it has text that is not Unicode: {error}") from None


def read_text(path: str | os.PathLike[str], malformed: type[TensorgradError]) -> str:
    """Returns the text of a file in UTF-8.

    Raises:
        TensorgradError: The file is not text; of the class `malformed`.
        OSError: The file can't be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise malformed(f"{path} is not text in UTF-8: {error}") from None
