"""Random keys that the host creates without the compiler equal those of `tg.random`."""

from __future__ import annotations

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.runtime import keys


@pytest.mark.parametrize("seed", [0, 7, 2**40 + 7, 2**64 - 1, -3])
@pytest.mark.parametrize("number", [0, 1, 5, 2**32 - 1, 2**33 + 1])
def test_keys_are_those_of_tg_random(seed: int, number: int) -> None:
    assert keys.key(seed) == tuple(np.asarray(tg.random.key(seed)).tolist())
    folded = np.asarray(tg.random.fold_in(tg.random.key(seed), number))
    assert keys.fold_in(keys.key(seed), number) == tuple(folded.tolist())
