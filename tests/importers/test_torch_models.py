"""Models of other libraries beside PyTorch: results, every gradient, buffers, in both modes; and ten steps of some."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree
from torch_comparison import differences, factors, named, others_warnings
from torch_zoo import BUILDERS, Example, without_dropout

import tensorgrad as tg

pytestmark = pytest.mark.nightly

BOUND = 1e-5
"""In f64, relative to the largest element, as several models compute positions and norms in f32 themselves."""

SINGLE = ("mixtral",)
"""Models that PyTorch itself computes in f32 only."""

TRAINED = ("gpt2", "llama", "bert", "vit", "unet", "lstm", "graph", "mamba", "t5")


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("name", BUILDERS)
def test_a_model_computes_what_pytorch_does(name: str, mode: str) -> None:
    example = built(name, mode)
    module, args, kwargs = example.module, example.args, dict(example.kwargs)
    if name not in SINGLE:
        module = module.double()
        args, kwargs = (pytree.tree_map(_double, arguments) for arguments in (args, kwargs))
    worst = differences(module, args, kwargs)
    assert not {name: value for name, value in worst.items() if not value < BOUND}


@pytest.mark.parametrize("name", TRAINED)
def test_ten_losses_are_those_of_pytorch(name: str) -> None:
    assert_equal_losses(name, "cpu")


@pytest.mark.parametrize("name", ["unet", "gpt2"])
def test_ten_losses_on_an_adapter(name: str) -> None:
    assert_equal_losses(name, "wgpu")


def built(name: str, mode: str) -> Example:
    """Returns a model of the zoo without dropout."""
    torch.manual_seed(0)
    with others_warnings():
        example = BUILDERS[name]()
    without_dropout(example.module.train(mode == "train"))
    return example


def assert_equal_losses(name: str, device: tg.DeviceName) -> None:
    """Trains a model here and in PyTorch, from the same weights on the same batch."""
    example = built(name, "train")
    module, args, kwargs = example.module, example.args, dict(example.kwargs)
    model = tg.from_torch(copy.deepcopy(module), *args, **kwargs)
    with others_warnings():
        weights = factors(named(copy.deepcopy(module)(*args, **kwargs), torch.Tensor))
    leaves, structure = pytree.tree_flatten((args, kwargs))
    batch = {f"x{number}": leaf.numpy() for number, leaf in enumerate(leaves)}

    def loss(model: Any, x0: Any, x1: Any = None) -> Any:
        args, kwargs = pytree.tree_unflatten([x0, x1][: len(leaves)], structure)
        results = named(model(*args, **kwargs), tg.Tensor)
        return sum(tg.mean(results[key] * factor.astype(np.float32)) for key, factor in weights.items())

    optimizer = tg.optim.sgd(0.01)
    training = tg.compile(model, loss=loss, optimizer=optimizer, inputs=tg.like(batch), device=device)
    theirs = torch.optim.SGD(module.parameters(), 0.01)
    for _ in range(10):
        with others_warnings():
            theirs.zero_grad()
            results = named(module(*args, **kwargs), torch.Tensor)
            expected: Any = sum(
                (results[key] * torch.from_numpy(factor).float()).mean() for key, factor in weights.items()
            )
            expected.backward()
            theirs.step()
        assert float(training.step(**batch)) == pytest.approx(expected.item(), rel=1e-4, abs=1e-4)


def _double(leaf: Any) -> Any:
    return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf
