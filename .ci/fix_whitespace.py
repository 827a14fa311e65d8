"""Removes trailing whitespace and ends every file in exactly one newline; exits 1 if it changed any."""

import sys
from collections.abc import Sequence
from pathlib import Path


def fixed(text: str) -> str:
    """Returns `text` without trailing whitespace, ending in one newline unless it is empty."""
    lines = [line.rstrip() for line in text.split("\n")]
    body = "\n".join(lines).rstrip("\n")
    return body + "\n" if body else ""


def main(paths: Sequence[str]) -> int:
    """Fixes the files at `paths` in place.

    Returns:
        1 if any file changed, else 0.
    """
    changed = False
    for path in map(Path, paths):
        before = path.read_text(encoding="utf-8")
        after = fixed(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"fixed {path}")
            changed = True
    return int(changed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
