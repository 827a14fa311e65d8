"""Every rule of the table of PyTorch's ops: values and gradients, beside PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch_comparison import differences
from torch_modules import FAMILIES

BOUND = 2e-5
"""In f32, relative to the largest element; standardizing 75 elements of a channel loses two digits of a gradient."""


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_computes_what_pytorch_does(name: str) -> None:
    torch.manual_seed(0)
    module, inputs = FAMILIES[name]().family()
    module.eval()
    check(module, inputs)


@pytest.mark.parametrize("name", ["normalization"])
def test_a_family_in_training(name: str) -> None:
    torch.manual_seed(1)
    module, inputs = FAMILIES[name]().family()
    module.train()
    module.cases["spectral"].eval()
    check(module, inputs)


def check(module: torch.nn.Module, inputs: list[torch.Tensor]) -> None:
    worst = {name: value for name, value in differences(module, inputs).items() if not value < BOUND}
    assert not worst
