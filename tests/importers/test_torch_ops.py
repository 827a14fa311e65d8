"""Every rule of the table of PyTorch's ops: values and gradients, beside PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.export import ExportedProgram
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


def test_a_functional_program_is_not_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExportedProgram, "run_decompositions", None)
    module = Function(
        lambda a, b: [
            a.T,
            a.mT,
            a.flatten(1).unflatten(1, (3, 3)),
            a.reshape_as(b),
            a.expand_as(torch.stack([a, b.reshape(3, 3, 3)])),
            *a.chunk(2),
            *a.split([1, 2], 1),
            *a.tensor_split(2),
            *a.tensor_split((1, 2), 1),
            *torch.unsafe_chunk(a, 2),
            a.to(torch.float32) * 1,
            a.to(b),
            F.dropout(a, 0.5, training=False),
        ],
        (3, 3, 3),
        (3, 9),
    )
    check(module, [])


def check(module: torch.nn.Module, inputs: list[torch.Tensor]) -> None:
    wide = [value.double() if value.is_floating_point() else value for value in inputs]
    worst = {name: value for name, value in differences(module.double(), wide).items() if not value < BOUND}
    assert not worst
