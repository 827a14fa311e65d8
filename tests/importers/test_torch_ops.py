"""Every rule of the table of PyTorch's ops: values and gradients, beside PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch_comparison import differences
from torch_modules import FAMILIES, Function

BOUND = 5e-8
"""In f64, relative to the largest element; some of PyTorch's kernels have f32 constants, such as hardsigmoid's 1/6."""


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_computes_what_pytorch_does(name: str) -> None:
    torch.manual_seed(0)
    module, inputs = FAMILIES[name]().family()
    check(module.eval(), inputs)


def test_normalization_in_training() -> None:
    torch.manual_seed(1)
    module, inputs = FAMILIES["normalization"]().family()
    module.train().get_submodule("cases.spectral").eval()
    check(module, inputs)


def test_products_of_groups() -> None:
    """In bfloat16, as PyTorch exports no other."""
    torch.manual_seed(2)
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    module = Function(lambda rows, matrices: torch.ops.aten._grouped_mm(rows, matrices, ends), (5, 8), (3, 8, 8))
    assert max(differences(module.bfloat16(), []).values()) < 2e-2


def check(module: torch.nn.Module, inputs: list[torch.Tensor]) -> None:
    wide = [value.double() if value.is_floating_point() else value for value in inputs]
    worst = {name: value for name, value in differences(module.double(), wide).items() if not value < BOUND}
    assert not worst
