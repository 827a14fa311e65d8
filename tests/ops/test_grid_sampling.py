"""Samples at positions that are no numbers are none either, as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from draws import generator

import tensorgrad as tg


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_positions_that_are_not_finite(mode: str, device: tg.DeviceName) -> None:
    image, grid = (generator(0).normal(size=shape).astype(np.float32) for shape in ((1, 2, 4, 4), (1, 3, 3, 2)))
    grid[0, 0, 0, 0], grid[0, 1, 1, 1], grid[0, 2, 2] = np.nan, np.inf, 1e30
    arguments = torch.from_numpy(image), torch.from_numpy(grid)
    expected = torch.nn.functional.grid_sample(*arguments, mode=mode, align_corners=False)
    actual = tg.grid_sample(*(tg.tensor(value, device=device) for value in (image, grid)), mode=mode)
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
