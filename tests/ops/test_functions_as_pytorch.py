"""Composed functions and layers compared with PyTorch's: values and derivatives, in f64 on the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import tensorgrad as tg
from tensorgrad.errors import DTypeError, OptionError, ShapeError

untyped: Any = tg
"""The package as code without types calls it."""

rng = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return rng.normal(size=shape)


def uniform(*shape: int) -> np.ndarray:
    return rng.uniform(0.05, 0.95, size=shape)


EDGES = np.array([-np.inf, -7.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 3.0, 6.0, 1e30, np.inf, np.nan])
IMAGE = normal(2, 4, 6, 4)
LABELS = rng.integers(0, 5, (3, 4)).astype(np.int32)
COUNTS = rng.integers(0, 5, (3, 4)).astype(np.float64)
SIGNS = np.where(normal(3, 4) > 0, 1.0, -1.0)


@dataclass
class Same:
    """A call in tensorgrad and one in PyTorch, on the same arrays."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    arrays: Sequence[np.ndarray]
    derivative: bool = True


def same(
    name: str, arrays: Sequence[np.ndarray], *, derivative: bool = True, module: Any = torch, **options: Any
) -> Same:
    """Returns a pair for functions of the same name and options."""
    return Same(
        lambda *x: getattr(untyped, name)(*x, **options),
        lambda *x: getattr(module, name)(*x, **options),
        arrays,
        derivative,
    )


def nn(name: str, theirs: str, arrays: Sequence[np.ndarray], *, derivative: bool = True, **options: Any) -> Same:
    """Returns a pair for a function with a different name in `torch.nn.functional`."""
    return Same(
        lambda *x: getattr(untyped, name)(*x, **options),
        lambda *x: getattr(functional, theirs)(*x, **options),
        arrays,
        derivative,
    )


CASES = {
    # Elementwise.
    **{name: same(name, [normal(3, 4)]) for name in ("deg2rad", "rad2deg", "sinc")},
    "sinc special": same("sinc", [np.array([0.0, 0.5, 3.0])]),
    "sinc near 0": same("sinc", [np.array([1e-9, -1e-5])], derivative=False),  # PyTorch's slope there is 0, or noise
    "xlogy": same("xlogy", [normal(4, 1), uniform(4)]),
    "xlogy special": same(
        "xlogy", [np.array([0.0, 0.0, 0.0, 2.0]), np.array([0.0, np.nan, 3.0, 0.0])], derivative=False
    ),
    "xlogy at zero": same("xlogy", [np.array([0.0, 0.0, 0.0, 2.0]), np.array([0.5, 2.0, 3.0, 4.0])]),
    "logit": same("logit", [uniform(5)]),
    "logit clamped": same("logit", [np.array([0.0, 0.3, 1.0])], eps=0.1, derivative=False),
    "fmod": same("fmod", [normal(6, 1) * 5, normal(7)]),
    "fmod special": same("fmod", [EDGES[:, None], EDGES], derivative=False),
    "fmax": same("fmax", [normal(4, 1), normal(3)]),
    "fmax special": same("fmax", [EDGES[:, None], EDGES], derivative=False),
    "fmin special": same("fmin", [EDGES[:, None], EDGES], derivative=False),
    "heaviside": same("heaviside", [EDGES[:-1], np.full(14, 0.5)], derivative=False),
    "nan_to_num": same("nan_to_num", [EDGES]),
    "nan_to_num chosen": same("nan_to_num", [EDGES], nan=2.0, posinf=3.0, neginf=-4.0),
    "isclose": same("isclose", [EDGES[:, None], EDGES * (1 + 1e-6)], derivative=False),
    "isclose nan": same("isclose", [EDGES[:, None], EDGES], equal_nan=True, derivative=False),
    # Activations.
    "relu6": nn("relu6", "relu6", [EDGES]),
    "hard_swish": nn("hard_swish", "hardswish", [np.concatenate([EDGES[1:-2], normal(5)])]),
    "softsign": nn("softsign", "softsign", [np.concatenate([EDGES[1:-3], normal(5)])]),
    "celu": nn("celu", "celu", [normal(9)], alpha=0.5),
    "hard_shrink": nn("hard_shrink", "hardshrink", [EDGES[:-1]]),
    "soft_shrink": nn("soft_shrink", "softshrink", [EDGES[1:-2]]),
    "tanh_shrink": nn("tanh_shrink", "tanhshrink", [normal(9)]),
    "glu": Same(lambda x: tg.glu(x, 1), lambda x: functional.glu(x, 1), [normal(3, 4, 2)]),
    # Normalization.
    "layer_norm": Same(
        lambda x, w, b: tg.layer_norm(x, (3, 4), w, b),
        lambda x, w, b: functional.layer_norm(x, (3, 4), w, b),
        [normal(2, 3, 4), normal(3, 4), normal(3, 4)],
    ),
    "rms_norm": Same(
        lambda x, w: tg.rms_norm(x, 4, w), lambda x, w: functional.rms_norm(x, (4,), w), [normal(2, 4), normal(4)]
    ),
    "group_norm": Same(
        lambda x, w, b: tg.group_norm(x, 2, w, b),
        lambda x, w, b: functional.group_norm(x, 2, w, b),
        [IMAGE, normal(4), normal(4)],
    ),
    "normalize": Same(lambda x: tg.normalize(x, 2, 1), lambda x: functional.normalize(x, 2, 1), [normal(3, 4)]),
    "local_response_norm": Same(
        lambda x: tg.local_response_norm(x, 3, 0.1), lambda x: functional.local_response_norm(x, 3, 0.1), [IMAGE]
    ),
    "local_response_norm even": Same(
        lambda x: tg.local_response_norm(x, 2, 0.1, 0.5, 2.0),
        lambda x: functional.local_response_norm(x, 2, 0.1, 0.5, 2.0),
        [IMAGE],
    ),
    # Axes.
    "flatten": Same(lambda x: tg.flatten(x, 1, 2), lambda x: torch.flatten(x, 1, 2), [IMAGE]),
    "flatten scalar": same("flatten", [np.array(3.0)]),
    "unflatten": Same(lambda x: tg.unflatten(x, 2, (-1, 2)), lambda x: torch.unflatten(x, 2, (-1, 2)), [IMAGE]),
    "unbind": Same(lambda x: tg.unbind(x, 1)[2], lambda x: torch.unbind(x, 1)[2], [IMAGE]),
    "hstack": Same(lambda x, y: tg.hstack([x, y]), lambda x, y: torch.hstack([x, y]), [normal(2, 3), normal(2, 1)]),
    "hstack vectors": Same(lambda x, y: tg.hstack([x, y]), lambda x, y: torch.hstack([x, y]), [normal(2), normal(3)]),
    "vstack": Same(lambda x, y: tg.vstack([x, y]), lambda x, y: torch.vstack([x, y]), [normal(3), normal(2, 3)]),
    "array_split": Same(
        lambda x: tg.array_split(x, 3, 2)[1], lambda x: torch.tensor_split(x, 3, 2)[1], [normal(1, 2, 7)]
    ),
    **{
        f"rot90 {k}": Same(lambda x, k=k: tg.rot90(x, k, (1, 2)), lambda x, k=k: torch.rot90(x, k, (1, 2)), [IMAGE])
        for k in (-1, 0, 1, 2)
    },
    "pixel_shuffle": Same(lambda x: tg.pixel_shuffle(x, 2), lambda x: functional.pixel_shuffle(x, 2), [IMAGE]),
    "pixel_unshuffle": Same(lambda x: tg.pixel_unshuffle(x, 2), lambda x: functional.pixel_unshuffle(x, 2), [IMAGE]),
    "pixel_shuffle of one image": Same(
        lambda x: tg.pixel_shuffle(x, 2), lambda x: functional.pixel_shuffle(x, 2), [normal(4, 2, 3)]
    ),
    "pixel_unshuffle of one image": Same(
        lambda x: tg.pixel_unshuffle(x, 2), lambda x: functional.pixel_unshuffle(x, 2), [normal(3, 4, 2)]
    ),
    "channel_shuffle": Same(
        lambda x: tg.channel_shuffle(x, 2), lambda x: functional.channel_shuffle(x, 2), [IMAGE], False
    ),
    **{
        f"diag of a vector {k}": Same(lambda x, k=k: tg.diag(x, k), lambda x, k=k: torch.diag(x, k), [normal(3)])
        for k in (-2, 0, 1)
    },
    "diag of a matrix": Same(lambda x: tg.diag(x, 1), lambda x: torch.diag(x, 1), [normal(3, 4)]),
    "diag_embed": Same(lambda x: tg.diag_embed(x, -1), lambda x: torch.diag_embed(x, -1), [normal(2, 3)]),
    # Products.
    "kron": same("kron", [normal(2, 3), normal(3, 1, 2)]),
    "cross": Same(
        lambda x, y: tg.cross(x, y, 1), lambda x, y: torch.cross(x, y, 1), [normal(2, 3, 2), normal(2, 3, 2)]
    ),
    **{
        f"cdist {p}": Same(
            lambda x, y, p=p: tg.cdist(x, y, p),
            lambda x, y, p=p: torch.cdist(x, y, p),
            [normal(2, 3, 4), normal(2, 5, 4)],
        )
        for p in (1.0, 2.0, 3.0, np.inf)
    },
    # Statistics.
    "quantile": Same(
        lambda x: tg.quantile(x, [0.1, 0.5, 1.0], 1),
        lambda x: torch.quantile(x, torch.tensor([0.1, 0.5, 1.0], dtype=torch.float64), 1),
        [normal(3, 7)],
    ),
    **{
        f"quantile {m}": Same(
            lambda x, m=m: tg.quantile(x, 0.3, method=m),
            lambda x, m=m: torch.quantile(x, 0.3, interpolation=m),
            [normal(2, 4)],
        )
        for m in ("lower", "higher", "midpoint", "nearest")
    },
    "median": Same(lambda x: tg.median(x, 1), lambda x: torch.median(x, 1).values, [normal(3, 7)]),
    "nansum": Same(lambda x: tg.nansum(x, 0), lambda x: torch.nansum(x, 0), [np.array([[1.0, np.nan], [2.0, np.nan]])]),
    "nanmean": Same(lambda x: tg.nanmean(x, 0), lambda x: torch.nanmean(x, 0), [np.array([[1.0, np.nan], [2.0, 3.0]])]),
    "cov": same("cov", [normal(3, 5)]),
    "cov of a vector": Same(lambda x: tg.cov(x, 0), lambda x: torch.cov(x, correction=0), [normal(5)]),
    "cov of one row": same("cov", [normal(1, 5)]),
    "corrcoef": same("corrcoef", [normal(3, 5)]),
    "corrcoef of one row": same("corrcoef", [normal(1, 5)]),
    # Losses.
    "binary_cross_entropy": same("binary_cross_entropy", [uniform(3, 4), uniform(3, 4)], module=functional),
    "binary_cross_entropy at its ends": same(
        "binary_cross_entropy",
        [np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0, 0.0])],
        module=functional,
        derivative=False,
    ),
    "soft_margin": Same(
        lambda x: tg.soft_margin(x, SIGNS),
        lambda x: functional.soft_margin_loss(x, torch.tensor(SIGNS)),
        [normal(3, 4)],
    ),
    "margin_ranking": nn("margin_ranking", "margin_ranking_loss", [normal(3, 4), normal(3, 4), SIGNS], margin=0.3),
    "triplet_margin": nn("triplet_margin", "triplet_margin_loss", [normal(3, 4), normal(3, 4), normal(3, 4)]),
    "triplet_margin swapped": nn(
        "triplet_margin", "triplet_margin_loss", [normal(3, 4), normal(3, 4), normal(3, 4)], swap=True, p=1.0
    ),
    "multilabel_soft_margin": nn(
        "multilabel_soft_margin", "multilabel_soft_margin_loss", [normal(3, 4), (SIGNS + 1) / 2]
    ),
    "gaussian_nll": nn("gaussian_nll", "gaussian_nll_loss", [normal(3, 4), normal(3, 4), uniform(3, 4)], full=True),
    **{
        f"poisson_nll {options}": Same(
            lambda x, options=options: tg.poisson_nll(x, tg.array(COUNTS, x.dtype), **options),
            lambda x, options=options: functional.poisson_nll_loss(x, torch.tensor(COUNTS), **options),
            [uniform(3, 4)],
        )
        for options in ({"full": True}, {"log_input": False})
    },
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    case = CASES[name]
    tensors = [torch.tensor(x, requires_grad=case.derivative) for x in case.arrays]
    expected = case.theirs(*tensors)
    arrays = [tg.array(x, x.dtype) for x in case.arrays]
    actual = np.asarray(case.ours(*arrays))
    assert actual.shape == tuple(expected.shape)
    np.testing.assert_allclose(actual, expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    if not case.derivative:
        return
    cotangent = normal(*actual.shape)
    torch_gradients = torch.autograd.grad(expected, tensors, torch.tensor(cotangent), allow_unused=True)
    _, pull = tg.vjp(case.ours, *arrays)
    for ours, theirs in zip(pull(tg.array(cotangent, "f64")), torch_gradients, strict=True):
        reference = 0.0 if theirs is None else theirs.numpy()
        np.testing.assert_allclose(np.asarray(ours), reference, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_multi_margin(p, reduction):
    scores, weight = normal(3, 4, 5), uniform(5)
    tensor = torch.tensor(scores.reshape(12, 5), requires_grad=True)
    expected = functional.multi_margin_loss(
        tensor,
        torch.tensor(LABELS.reshape(12), dtype=torch.int64),
        p,
        weight=torch.tensor(weight),
        reduction=reduction,
    )
    scores, weight = tg.array(scores, "f64"), tg.array(weight, "f64")
    loss = tg.multi_margin(scores, LABELS, reduction, p=p, weight=weight)
    np.testing.assert_allclose(np.asarray(loss).reshape(expected.shape), expected.detach().numpy(), rtol=1e-10)
    expected.sum().backward()
    gradient = tg.grad(lambda x: tg.sum(tg.multi_margin(x, LABELS, reduction, p=p, weight=weight)))(scores)
    assert tensor.grad is not None
    np.testing.assert_allclose(np.asarray(gradient).reshape(12, 5), tensor.grad.numpy(), atol=1e-12)


def test_counts():
    x = rng.integers(-1, 7, (4, 5)).astype(np.int32)
    inside = x[(x >= 0) & (x < 6)]
    assert np.array_equal(np.asarray(tg.bincount(x, 6)), np.bincount(inside, minlength=6))
    weights = normal(4, 5)
    sums = [weights[x == i].sum() for i in range(6)]
    np.testing.assert_allclose(np.asarray(tg.bincount(x, 6, tg.array(weights, "f64"))), sums)
    values = np.concatenate([normal(50), [np.nan, 0.5, -0.5]])
    cases: list[tuple[Any, dict[str, Any]]] = [(7, {"range": (-1.0, 1.0)}), ([-1.0, -0.5, 0.0, 0.5], {})]
    for bins, options in cases:
        counts, edges = tg.histogram(values, bins, **options)
        expected, borders = np.histogram(values[~np.isnan(values)], bins, **options)
        assert np.array_equal(np.asarray(counts), expected)
        np.testing.assert_allclose(np.asarray(edges), borders)
    counts, edges = tg.histogram(normal(40), 5)
    assert int(tg.sum(counts)) == 40
    counts, edges = tg.histogram(np.full(3, 2.0), 4)
    expected, borders = np.histogram(np.full(3, 2.0), 4)
    assert np.array_equal(np.asarray(counts), expected) and np.allclose(np.asarray(edges), borders)


def test_closeness_of_all():
    assert bool(tg.allclose([1.0, 2.0], [1.0, 2.0 + 1e-9]))
    assert not bool(tg.allclose([1.0, np.nan], [1.0, np.nan]))
    assert bool(tg.allclose([1.0, np.nan], [1.0, np.nan], equal_nan=True))


def test_of_integers():
    x, y = np.array([-7, 7, -7, 5], np.int32), np.array([3, -3, -3, 0], np.int32)
    assert np.asarray(tg.fmod(x, y)).tolist() == [-1, 1, -1, 0]
    assert np.asarray(tg.fmax(x, y)).tolist() == [3, 7, -3, 5]
    assert np.asarray(tg.nan_to_num(x)).tolist() == x.tolist()
    assert np.asarray(tg.heaviside(x, y)).tolist() == [0, 1, 0, 1]
    assert float(tg.median(np.array([1, 4, 2, 3], np.int32))) == 2.5
    assert np.asarray(tg.kron(x[:2], y[:2])).tolist() == [-21, 21, 21, -21]


def test_nan_and_empty_rows_of_order_statistics():
    rows = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 4.0]])
    assert np.array_equal(np.asarray(tg.median(rows, 1)), [np.nan, 2.0], equal_nan=True)
    assert np.asarray(tg.quantile(rows, 0.5, keepdims=True)).shape == (1, 1)
    assert np.array_equal(np.asarray(tg.nanmean([[np.nan], [np.nan]], 0)), [np.nan], equal_nan=True)
    with pytest.raises(ShapeError, match=r"median: axes .* are empty"):
        tg.median(np.zeros((0, 2)), 0)


LAYERS: dict[str, tuple[Callable[[], Any], Callable[[], torch.nn.Module], np.ndarray]] = {
    **{
        name: (lambda name=name: getattr(tg.nn, name)(), lambda name=name: getattr(torch.nn, name)(), normal(3, 4))
        for name in ("CELU", "GLU", "Hardshrink", "Hardswish", "ReLU6", "Softshrink", "Softsign", "Tanhshrink")
    },
    **{
        f"{name}Pad{n}d": (
            lambda name=name, n=n: getattr(tg.nn, f"{name}Pad{n}d")(2),
            lambda name=name, n=n: getattr(torch.nn, f"{name}Pad{n}d")(2),
            normal(2, 1, *[3, 4, 5][:n]),
        )
        for name in ("Circular", "Reflection", "Replication", "Zero")
        for n in (1, 2, 3)
    },
    "ConstantPad1d": (
        lambda: tg.nn.ConstantPad1d((1, 2), 7.0),
        lambda: torch.nn.ConstantPad1d((1, 2), 7.0),
        normal(2, 3),
    ),
    "ConstantPad2d": (
        lambda: tg.nn.ConstantPad2d((1, 2, 0, -1), 7.0),
        lambda: torch.nn.ConstantPad2d((1, 2, 0, -1), 7.0),
        normal(2, 3, 4),
    ),
    "ConstantPad3d": (lambda: tg.nn.ConstantPad3d(1, 7.0), lambda: torch.nn.ConstantPad3d(1, 7.0), normal(2, 3, 4)),
    "PixelShuffle": (lambda: tg.nn.PixelShuffle(2), lambda: torch.nn.PixelShuffle(2), IMAGE),
    "PixelUnshuffle": (lambda: tg.nn.PixelUnshuffle(2), lambda: torch.nn.PixelUnshuffle(2), IMAGE),
    "ChannelShuffle": (lambda: tg.nn.ChannelShuffle(2), lambda: torch.nn.ChannelShuffle(2), IMAGE),
    "Unflatten": (lambda: tg.nn.Unflatten(1, (2, 2)), lambda: torch.nn.Unflatten(1, (2, 2)), IMAGE),
    "Upsample": (lambda: tg.nn.Upsample(scale_factor=2), lambda: torch.nn.Upsample(scale_factor=2), IMAGE),
    "Upsample linear": (
        lambda: tg.nn.Upsample((7, 9), mode="bilinear"),
        lambda: torch.nn.Upsample((7, 9), mode="bilinear"),
        IMAGE,
    ),
    "InstanceNorm1d": (
        lambda: tg.nn.InstanceNorm1d(3, affine=True, dtype="f64"),
        lambda: torch.nn.InstanceNorm1d(3, affine=True, dtype=torch.float64),
        normal(2, 3, 5),
    ),
    "InstanceNorm2d": (lambda: tg.nn.InstanceNorm2d(4), lambda: torch.nn.InstanceNorm2d(4), IMAGE),
    "InstanceNorm3d": (lambda: tg.nn.InstanceNorm3d(2), lambda: torch.nn.InstanceNorm3d(2), normal(1, 2, 2, 3, 2)),
    "LocalResponseNorm": (lambda: tg.nn.LocalResponseNorm(2), lambda: torch.nn.LocalResponseNorm(2), IMAGE),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    ours, theirs, x = LAYERS[name]
    with torch.no_grad():
        expected = theirs()(torch.tensor(x)).numpy()
    layer = ours()
    layer = layer.initialized(device="numpy") if layer.named_parameters() else layer
    np.testing.assert_allclose(np.asarray(layer(tg.array(x, "f64"))), expected, rtol=1e-10, atol=1e-12)


def carried_over(ours: Any, theirs: torch.nn.Module) -> Any:
    """Returns a layer with PyTorch's parameters, randomly sampled, in the form that functions take."""
    torch.manual_seed(0)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return ours.initialized(values=tg.nn.from_torch(ours, theirs.state_dict()), device="numpy")


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layers(norm_first):
    x, memory = normal(2, 5, 8), normal(2, 3, 8)
    options: Any = {"dim_feedforward": 12, "dropout": 0.0, "norm_first": norm_first}
    encoder: Any = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True, dtype=torch.float64, **options)
    ours = carried_over(tg.nn.TransformerEncoderLayer(8, 2, **options, dtype="f64"), encoder)
    with torch.no_grad():
        np.testing.assert_allclose(
            np.asarray(ours(tg.array(x, "f64"))), encoder(torch.tensor(x)).numpy(), rtol=1e-10, atol=1e-12
        )
    decoder: Any = torch.nn.TransformerDecoderLayer(8, 2, batch_first=True, dtype=torch.float64, **options)
    ours = carried_over(tg.nn.TransformerDecoderLayer(8, 2, **options, dtype="f64"), decoder)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    with torch.no_grad():
        expected = decoder(torch.tensor(x), torch.tensor(memory), tgt_mask=mask)
    np.testing.assert_allclose(
        np.asarray(ours(tg.array(x, "f64"), tg.array(memory, "f64"))), expected.numpy(), rtol=1e-10, atol=1e-12
    )


@pytest.mark.nightly
def test_stacked_transformer_layers_train():
    encoder = tg.nn.TransformerEncoder(lambda: tg.nn.TransformerEncoderLayer(8, 2, 16), 2, tg.nn.LayerNorm(8))
    decoder = tg.nn.TransformerDecoder(lambda: tg.nn.TransformerDecoderLayer(8, 2, 16), 2)

    def loss(model: Any, x: Any, y: Any, key: Any) -> Any:
        first, second = tg.random.split(key)
        return tg.mse(model[1](y, model[0](x, first), second), y)

    training = tg.compile(
        [encoder, decoder],
        loss=loss,
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": (3, 4, 8), "y": (3, 5, 8)},
        device="numpy",
    )
    data = {"x": normal(3, 4, 8).astype("f4"), "y": normal(3, 5, 8).astype("f4")}
    losses = [float(training.step(**data)) for _ in range(30)]
    assert losses[-1] < 0.6 * losses[0]


def state_of(parts: list[Any] | None) -> Any:
    """Returns a state as cells take it: one tensor, a pair, or nothing."""
    return None if parts is None else parts[0] if len(parts) == 1 else tuple(parts)


@pytest.mark.parametrize("name", ["RNNCell", "GRUCell", "LSTMCell"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_cells(name, batch):
    theirs: Any = getattr(torch.nn, name)(3, 4, dtype=torch.float64)
    ours = carried_over(getattr(tg.nn, name)(3, 4, dtype="f64"), theirs)
    x, count = normal(*batch, 3), 2 if name == "LSTMCell" else 1
    state = [normal(*batch, 4) for _ in range(count)]
    for initial in (None, state):
        ours_given, theirs_given = (
            None if initial is None else [as_tensor(value) for value in initial]
            for as_tensor in (lambda value: tg.array(value, "f64"), torch.tensor)
        )
        with torch.no_grad():
            expected = theirs(torch.tensor(x), state_of(theirs_given))
        actual = ours(tg.array(x, "f64"), state_of(ours_given))
        pairs = zip(actual, expected, strict=True) if count > 1 else [(actual, expected)]
        for part, correct in pairs:
            np.testing.assert_allclose(np.asarray(part), correct.numpy(), rtol=1e-10, atol=1e-12)


def test_bilinear():
    theirs = torch.nn.Bilinear(3, 4, 5, dtype=torch.float64)
    ours = carried_over(tg.nn.Bilinear(3, 4, 5, dtype="f64"), theirs)
    x, y = normal(2, 3), normal(2, 4)
    with torch.no_grad():
        expected = theirs(torch.tensor(x), torch.tensor(y)).numpy()
    np.testing.assert_allclose(np.asarray(ours(tg.array(x, "f64"), tg.array(y, "f64"))), expected, rtol=1e-10)


def test_dropout_of_channels():
    layer, key = tg.nn.Dropout2d(0.5), tg.random.key(0)
    x = np.ones((8, 16, 3, 3), np.float32)
    dropped = np.asarray(layer(x, key))
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert (dropped.min((2, 3)) == dropped.max((2, 3))).all()
    assert np.asarray(tg.nn.inference(layer)(x)).tolist() == x.tolist()
    with pytest.raises(ShapeError, match="Dropout2d: expected 4 axes"):
        layer(x[0], key)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: tg.flatten(np.zeros((2, 3)), 1, 0), ShapeError, "flatten: axis 1 comes after 0"),
        (
            lambda: tg.unflatten(np.zeros(6), 0, (4, -1)),
            ShapeError,
            r"unflatten: axis 0 of \(6,\) does not divide into",
        ),
        (lambda: tg.hstack([]), ShapeError, "nothing to join"),
        (lambda: tg.array_split(np.zeros(3), 0), ShapeError, "sections must be a positive integer"),
        (lambda: tg.rot90(np.zeros((2, 2)), 1, (0, 0)), ShapeError, r"the axes \(0, 0\) are the same"),
        (lambda: tg.pixel_shuffle(np.zeros((3, 2, 2)), 2), ShapeError, "a multiple of 4, height, width"),
        (lambda: tg.channel_shuffle(np.zeros((1, 3)), 2), ShapeError, "2 groups do not divide the channels"),
        (lambda: tg.diag(np.zeros((1, 1, 1))), ShapeError, "takes a vector or a matrix"),
        (lambda: tg.cross(np.zeros(2), np.zeros(2)), ShapeError, "must have 3 elements"),
        (lambda: tg.cdist(np.zeros((2, 3)), np.zeros((2, 4))), ShapeError, "cdist: needs points"),
        (lambda: tg.cdist(np.zeros((2, 3)), np.zeros((2, 3)), 0), OptionError, "p must be positive"),
        (lambda: tg.quantile([1.0], 1.5), OptionError, r"q must be a number in \[0, 1\]"),
        (lambda: tg.quantile([1.0], 0.5, method="cubic"), OptionError, "method 'cubic' is not one of linear"),
        (lambda: tg.cov(np.zeros(1)), ShapeError, "1 samples are too few"),
        (lambda: tg.bincount([0.5], 2), DTypeError, "takes integers, not f"),
        (lambda: tg.bincount(np.zeros(2, np.int32), 0), OptionError, "length must be a positive integer"),
        (lambda: tg.histogram([1.0], range=(1.0, 1.0)), OptionError, "range must be increasing"),
        (lambda: tg.layer_norm(np.zeros((2, 3)), 4), ShapeError, r"expected a shape \[\.\.\., 4\]"),
        (lambda: tg.group_norm(np.zeros((2, 3)), 2), ShapeError, "2 groups do not divide the channels"),
        (lambda: tg.glu(np.zeros(3)), ShapeError, "no two equal halves"),
        (lambda: tg.logit(0.5, 0.7), OptionError, "eps must be between 0 and 0.5"),
        (lambda: tg.isclose(1.0, 1.0, -1.0), OptionError, "tolerances must not be negative"),
        (lambda: tg.fmod(True, False), DTypeError, "takes numbers, not bool"),
        (lambda: tg.multi_margin(np.zeros((1, 2)), np.zeros(1, np.int32), p=3), OptionError, "p must be 1 or 2"),
        (lambda: tg.triplet_margin([0.0], [0.0], [0.0], margin=0.0), OptionError, "margin must be positive"),
        (lambda: tg.nn.Upsample(), OptionError, "takes either size or scale_factor"),
        (lambda: tg.nn.ReflectionPad2d((1, 2)), ShapeError, "padding must be one integer or 4"),
        (
            lambda: untyped.nn.TransformerEncoder(tg.nn.Identity(), 2),
            OptionError,
            "layer must be a function that makes",
        ),
    ],
)
def test_mistakes(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.nightly
def test_on_a_device(device):
    """New functions are composed of ops that have kernels; one program with many is compared with the reference."""

    def function(x: Any, y: Any) -> Any:
        parts = [
            tg.hard_swish(x), tg.softsign(x), tg.celu(x), tg.soft_shrink(x), tg.fmod(x, y), tg.nan_to_num(x),
            tg.layer_norm(x, 4), tg.group_norm(x, 2), tg.local_response_norm(x, 2), tg.normalize(x), tg.xlogy(y, y * y),
        ]  # fmt: skip
        totals = [tg.sum(part * (i + 1)) for i, part in enumerate(parts)]
        others = [tg.median(x, 1), tg.quantile(x, 0.3, 0), tg.diag(tg.kron(x, y)), tg.cdist(x, y), tg.rot90(x)]
        return [*parts, *others, tg.bincount(tg.cast(x * 2, "i32"), 3), *totals]

    x, y = normal(4, 4).astype("f4"), (uniform(4, 4) + 0.1).astype("f4")
    expected = tg.jit(function, device="numpy")(x, y)
    for place in ("cpu", "wgpu"):
        for actual, correct in zip(tg.jit(function, device=place)(x, y), expected, strict=True):
            np.testing.assert_allclose(np.asarray(actual), np.asarray(correct), rtol=2e-5, atol=2e-5)
