"""Files: safetensors as the library writes them, and replaced as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from tensorgrad.runtime.files import DTYPES, write_safetensors, write_text

ARRAYS = {
    **{f"{letter}{i}é": np.ones((i, 2), dtype) for i, dtype in enumerate(DTYPES.values()) for letter in "ba"},
    "scalar": np.array(3.0, np.float32),
    "transposed": np.arange(12).reshape(3, 4).T,
    "other order of bytes": np.arange(3, dtype=">i4"),
}


@pytest.mark.parametrize("metadata", [{}, {"key": 'quotes " and\n\u2028\x01\x7f'}])
def test_the_library_writes_the_same_bytes(metadata: dict[str, str], tmp_path: Path) -> None:
    write_safetensors(tmp_path / "file", ARRAYS, metadata)
    native = {
        name: np.asarray(array.astype(array.dtype.newbyteorder("=")), order="C") for name, array in ARRAYS.items()
    }
    assert (tmp_path / "file").read_bytes() == save(native, metadata or None)


def test_equal_contents_are_equal_files(tmp_path: Path) -> None:
    metadata = {f"key {number}": str(number) for number in range(20)}
    for name in "ab":
        write_safetensors(tmp_path / name, ARRAYS, metadata)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "a\r\nb\n")
    assert (tmp_path / "file").read_bytes() == b"a\r\nb\n"
