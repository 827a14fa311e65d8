"""Compares an imported module with PyTorch's: results, the gradient of every parameter, and buffers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import tensorgrad as tg


def arrays(value: Any) -> Any:
    """Returns arguments with NumPy's arrays in place of PyTorch's tensors."""
    return pytree.tree_map(lambda leaf: array(leaf) if isinstance(leaf, torch.Tensor) else leaf, value)


def array(tensor: torch.Tensor) -> np.ndarray:
    """Returns a tensor as an array, also one of bf16, which PyTorch converts to none."""
    dense = tensor.detach()
    return dense.float().numpy().astype(tg.bf16) if dense.dtype == torch.bfloat16 else dense.numpy()


def named(value: Any, kind: type) -> dict[str, Any]:
    """Returns the tensors of a result, by path."""
    leaves, _ = pytree.tree_flatten_with_path(value)
    return {pytree.keystr(path): leaf for path, leaf in leaves if isinstance(leaf, kind)}


def factors(results: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns what each float result is multiplied with in the loss, so that its elements count differently."""
    generator = np.random.default_rng(0)
    floats = {name: value for name, value in results.items() if "float" in str(value.dtype)}
    return {name: generator.normal(size=tuple(value.shape)) for name, value in floats.items()}


@contextmanager
def others_warnings() -> Iterator[None]:
    """Lets the libraries compared with warn of their own code, which isn't under test; ours runs outside of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def differences(
    module: torch.nn.Module, args: Any, kwargs: dict[str, Any] | None = None, device: tg.DeviceName = "numpy"
) -> dict[str, float]:
    """Returns the largest difference of each result, gradient and buffer, relative to the largest element or 1."""
    kwargs = kwargs or {}
    model = tg.from_torch(module, *args, **kwargs).initialized(device=device)
    with others_warnings():
        expected = named(module(*args, **kwargs), torch.Tensor)
    weights = factors(expected)
    torch_loss: Any = sum(
        (expected[name].double() * torch.from_numpy(factor)).sum() for name, factor in weights.items()
    )
    module.zero_grad()
    torch_loss.backward()
    results = differentiated(model, args, kwargs, weights, device)
    assert results.keys() == expected.keys()
    assert all(results[name].dtype.name == str(expected[name].dtype).removeprefix("torch.") for name in weights)
    worst = {name: _difference(results[name].numpy(), value) for name, value in expected.items()}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            own = model.named_parameters()[name].grad
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            gradient = torch.stack([gradient.real, gradient.imag]) if gradient.is_complex() else gradient
            worst[f"gradient of {name}"] = _difference(np.zeros(1) if own is None else own.numpy(), gradient)
    buffers = model.named_buffers()
    for name, value in module.named_buffers():
        if name in buffers:
            worst[f"buffer {name}"] = _difference(buffers[name].numpy(), value)
    return worst


def differentiated(
    model: Any, args: Any, kwargs: dict[str, Any], weights: dict[str, np.ndarray], device: Any
) -> dict[str, tg.Tensor]:
    """Returns an imported module's results, after the derivative of their sum with `factors`."""
    own_args, own_kwargs = pytree.tree_map(lambda leaf: on_device(leaf, device), (tuple(args), kwargs))
    results = named(model(*own_args, **own_kwargs), tg.Tensor)
    loss = weighted(results, weights, device)
    if loss.requires_grad:
        loss.backward()
    return results


def weighted(results: dict[str, tg.Tensor], weights: dict[str, np.ndarray], device: Any) -> tg.Tensor:
    """Returns the sum of results times their `factors`."""
    total: Any = tg.tensor(0.0, device=device)
    for name, factor in weights.items():
        wide = tg.cast(results[name], tg.f32) if results[name].dtype == tg.bf16 else results[name]
        total = total + tg.sum(wide * tg.tensor(factor, wide.dtype, device=device))
    return total


def on_device(leaf: Any, device: tg.DeviceName) -> Any:
    """Returns an argument with a tensor of ours in place of PyTorch's."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    value = array(leaf)
    dtype = np.int32 if value.dtype == np.int64 else value.dtype
    return tg.tensor(value.astype(dtype), dtype, device=device)


def _difference(own: np.ndarray, theirs: torch.Tensor) -> float:
    expected = theirs.detach().double().numpy(force=True)
    if own.size == expected.size:
        assert own.shape == expected.shape
    error = np.abs(own.astype(np.float64) - expected).max(initial=0)
    return float(error / max(1.0, np.abs(expected).max(initial=0)))
