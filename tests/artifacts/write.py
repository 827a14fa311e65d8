"""Writes files of the current version of formats, which are kept for good.

`python tests/artifacts/write.py --format program` writes those of one format, without it those of all.
A version that is there is never written again; files of older versions stay as they are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
from formats import FORMATS, Values

HERE = Path(__file__).parent
MANIFEST = HERE / "manifest.json"


def digest(values: Values) -> dict[str, str]:
    """Returns a digest of each value: of its dtype, shape and bytes."""
    arrays = {name: np.asarray(value, order="C") for name, value in values.items()}
    return {
        name: hashlib.sha256(f"{array.dtype.str} {array.shape}".encode() + array.tobytes()).hexdigest()[:16]
        for name, array in sorted(arrays.items())
    }


def manifest() -> dict[str, dict[str, dict[str, str]]]:
    """Returns the digests of what reading each version of each format gives."""
    return json.loads(MANIFEST.read_text(encoding="utf-8")) if MANIFEST.exists() else {}


def write(name: str) -> bool:
    """Writes the current version of a format; returns whether it was missing."""
    each, known = FORMATS[name], manifest()
    version = str(each.version)
    if version in known.get(name, {}):
        return False
    folder = HERE / name / version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    each.write(folder)
    known.setdefault(name, {})[version] = digest(each.read(folder, each.devices[0]))
    MANIFEST.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=FORMATS, nargs="+", default=list(FORMATS))
    for name in parser.parse_args().format:
        version = FORMATS[name].version
        print(f"{name}/{version}:", "written" if write(name) else "is there, and stays as it is")


if __name__ == "__main__":
    main()
