"""Convolutions, pooling and einsum in the API: settings, identities, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from draws import generator
from xdsl.context import Context

import tensorgrad as tg
from tensorgrad.dialects.tg import convolution
from tensorgrad.dialects.tg.convolution import ConvOp, Phases
from tensorgrad.passes.tensors.simplify import SimplifyPass

untyped: Any = tg
"""The package as code without types calls it."""

RNG = generator(3)


def floats(*shape: int) -> tg.Array:
    return cast(tg.Array, tg.array(RNG.standard_normal(shape), "f64"))


def waves(*shape: int) -> np.ndarray[Any, Any]:
    return np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def dot(x: Any, y: Any) -> float:
    return float(tg.sum(x * y))


TRANSPOSED = [
    {"stride": 1},
    {"stride": 2, "padding": 1},
    {"stride": [3, 2], "padding": [(0, 2), (1, 0)]},
    {"stride": 2, "padding": 1, "dilation": 2},
    {"stride": 2, "padding": 1, "groups": 2},
]


@pytest.mark.parametrize("settings", TRANSPOSED, ids=str)
def test_a_transposed_convolution_is_the_adjoint(settings: dict[str, Any]) -> None:
    groups = settings.get("groups", 1)
    y, w = floats(2, 4, 3, 5), floats(4, 6 // groups, 3, 2)
    image = tg.conv_transpose(y, w, **settings)
    x = floats(*image.shape)
    assert tg.conv(x, w, **settings).shape == y.shape
    assert dot(tg.conv(x, w, **settings), y) == pytest.approx(dot(x, image), rel=1e-10)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 1), (3, 2), (4, 3), (2, 2), (6, 4)])
def test_each_element_of_a_window_belongs_to_one_phase(window: int, stride: int, dilation: int) -> None:
    for low in range(-2, 6):
        phases = Phases.of(24, window, 1, low, stride, dilation)
        assert phases.count == stride
        met = [
            first + tap * phases.spacing
            for first, taps in zip(phases.first, phases.taps, strict=True)
            for tap in range(taps)
        ]
        assert sorted(met) == list(range(window))


STRIDED = [(4, 2, 1, 8), (3, 2, 1, 8), (2, 2, 0, 8), (1, 2, 0, 8), (5, 3, 2, 9), (2, 3, 0, 9), (4, 4, 0, 8)]
"""Windows, strides, padding and extents that the stride divides."""


@pytest.mark.parametrize("sample", STRIDED, ids=str)
def test_a_gradient_multiplies_as_often_as_the_convolution(
    sample: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    window, stride, padding, extent = sample
    products, multiply = [0], np.matmul

    def counted(x: Any, y: Any) -> Any:
        products[0] += x.size * y.shape[-1]
        return multiply(x, y)

    def convolved(x: Any, w: Any) -> Any:
        return tg.conv(x, w, stride=stride, padding=padding)

    x, w = floats(2, 3, extent, extent), floats(4, 3, window, window)
    forward = tg.jit(convolved, device="numpy")
    by_image = tg.jit(lambda x, w, y: tg.vjp(lambda x: convolved(x, w), x)[1](y), device="numpy")
    y = forward(x, w)
    by_image(x, w, y)
    monkeypatch.setattr(np, "matmul", counted)
    forward(x, w)
    expected, products[0] = products[0], 0
    by_image(x, w, y)
    assert products[0] == expected > 0


@pytest.mark.in_turns(4, 1)
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("window", [2, 4])
def test_a_transposed_convolution_costs_as_much_as_the_convolution(device: tg.DeviceName, window: int) -> None:
    x, w = waves(2, 12, 8, 8), waves(16, 12, window, window)
    forward = tg.jit(lambda x, w: tg.conv(x, w, stride=2, padding=window // 2 - 1), device=device)
    transposed = tg.jit(lambda y, w: tg.relu(tg.conv_transpose(y, w, stride=2, padding=window // 2 - 1)), device=device)
    assert transposed(forward(x, w), w).shape == x.shape
    (convolution,), (both,) = (function.report().facts.runs for function in (forward, transposed))
    assert both.flops == convolution.flops


def test_output_padding_adds_elements_behind() -> None:
    y, w = floats(1, 2, 4), floats(2, 3, 3)
    plain = tg.conv_transpose(y, w, stride=2, padding=1)
    longer = tg.conv_transpose(y, w, stride=2, padding=1, output_padding=1)
    assert longer.shape == (1, 3, 8)
    np.testing.assert_array_equal(np.asarray(longer)[..., :7], np.asarray(plain))


def test_same_padding() -> None:
    for extent in (5, 6, 7):
        for stride in (1, 2, 3):
            for window in (1, 2, 3, 4):
                x, w = floats(1, 1, extent), floats(1, 1, window)
                assert tg.conv(x, w, stride=stride, padding="same").shape[-1] == -(-extent // stride)
                assert tg.conv_transpose(x, w, stride=stride, padding="same").shape[-1] == extent * stride
                assert tg.max_pool(x, window, stride, "same").shape[-1] == -(-extent // stride)


def test_groups_are_separate_convolutions() -> None:
    x, w = floats(2, 6, 5), floats(9, 2, 3)
    whole = np.asarray(tg.conv1d(x, w, groups=3))
    parts = [np.asarray(tg.conv1d(x[:, 2 * i : 2 * i + 2], w[3 * i : 3 * i + 3])) for i in range(3)]
    np.testing.assert_allclose(whole, np.concatenate(parts, 1), rtol=1e-12)


def test_integers_convolve_and_mixed_types_promote() -> None:
    x, w = tg.array(np.arange(6).reshape(1, 1, 6), "i32"), tg.array([[[1, -1]]], "i32")
    np.testing.assert_array_equal(np.asarray(tg.conv(x, w)), np.full((1, 1, 5), -1))
    assert tg.conv(x, tg.ones((1, 1, 2))).dtype == np.float32


CEIL: list[tuple[int, int, int, tuple[int, int], float, float, float]] = [
    (3, 2, 1, (3, 4), 9.066531, 0.258392, 1.090076),
    (2, 3, 0, (2, 3), 3.895103, 0.781269, 0.781269),
    (2, 2, 1, (3, 4), 5.499034, 0.489108, 1.152084),
    (3, 3, 1, (2, 3), 4.860769, 0.217382, 0.682999),
]
"""Window, stride, padding; the extents, and the sums of maxima and of both means, that PyTorch 2 gives."""


@pytest.mark.parametrize("sample", CEIL, ids=str)
def test_ceil_mode(sample: tuple[int, int, int, tuple[int, int], float, float, float]) -> None:
    size, stride, padding, extents, largest, counted, uncounted = sample
    x = waves(1, 1, 5, 7)
    top = tg.max_pool(x, size, stride, padding, ceil_mode=True)
    assert top.shape == (1, 1, *extents)
    assert float(tg.sum(top)) == pytest.approx(largest, abs=1e-4)
    for count_padding, expected in ((True, counted), (False, uncounted)):
        mean = tg.avg_pool(x, size, stride, padding, ceil_mode=True, count_padding=count_padding)
        assert float(tg.sum(mean)) == pytest.approx(expected, abs=1e-4)


def test_windows_over_the_axes_that_are_named() -> None:
    x = waves(2, 6)
    assert tg.max_pool(x, [2]).shape == (2, 3)
    assert tg.max_pool(x, [2, 3]).shape == (1, 2)
    assert tg.avg_pool(np.arange(6), [3]).dtype == np.float32


def test_equal_maxima_share_the_derivative() -> None:
    gradient = tg.grad(lambda x: tg.sum(tg.max_pool(x, [2])))(np.array([1, 1, 3, 2], np.float32))
    np.testing.assert_array_equal(np.asarray(gradient), [0.5, 0.5, 1, 0])


EINSUM: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij->ji", ((2, 3),)),
    ("ij", ((2, 3),)),
    ("ba", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ii", ((3, 3),)),
    ("iij->ji", ((3, 3, 2),)),
    ("ijij->ji", ((2, 3, 2, 3),)),
    ("ii->i", ((0, 0),)),
    ("...ij->...ji", ((2, 2, 3),)),
    ("i...->...i", ((2, 2, 3),)),
    ("...,...", ((2, 1), (3, 1, 2))),
    ("ij,ij->ij", ((1, 3), (2, 1))),
    (" i j , j k -> i k ", ((2, 3), (3, 2))),
    ("i,i,i->i", ((3,), (3,), (3,))),
    ("ab,bc,cd,de,ea", ((2, 3), (3, 4), (4, 2), (2, 2), (2, 2))),
    ("Ab,bA", ((2, 3), (3, 2))),
    (",,->", ((), (), ())),
    ("ij,jk->ik", ((2, 0), (0, 3))),
]


@pytest.mark.parametrize(("subscripts", "shapes"), EINSUM, ids=str)
def test_einsum_is_numpys(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    values = [RNG.standard_normal(shape) for shape in shapes]
    result = tg.einsum(subscripts, *(tg.array(value, "f64") for value in values))
    np.testing.assert_allclose(np.asarray(result), np.einsum(subscripts, *values), rtol=1e-10, atol=1e-12)


ELLIPSES: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("...i->i", ((2, 3, 4),)),
    ("i...->", ((2, 3, 4),)),
    ("...->", ((2, 3),)),
    ("...ii->i", ((2, 3, 3),)),
    ("...i,...i->i", ((2, 3, 4), (1, 4))),
    ("...ij,j...->i", ((5, 2, 3), (3, 1))),
    ("a...,b...,...c->cab", ((2, 3), (4, 3), (3, 2))),
]


@pytest.mark.parametrize(("subscripts", "shapes"), ELLIPSES, ids=str)
def test_einsum_sums_an_ellipsis_that_the_output_lacks(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    values = [RNG.standard_normal(shape) for shape in shapes]
    torch_tensors = [torch.tensor(value, requires_grad=True) for value in values]
    expected = torch.einsum(subscripts, *torch_tensors)
    torch.sum(torch.sin(expected)).backward()
    tensors = [tg.array(value, "f64") for value in values]
    np.testing.assert_allclose(np.asarray(tg.einsum(subscripts, *tensors)), expected.detach().numpy(), rtol=1e-10)
    wrt = tuple(range(len(values)))
    gradients = tg.grad(lambda *xs: tg.sum(tg.sin(tg.einsum(subscripts, *xs))), wrt)(*tensors)
    for gradient, tensor in zip(gradients, torch_tensors, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(np.asarray(gradient), tensor.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_more_operands_contract_from_the_cheap_end() -> None:
    """A matrix chain applied to a vector has only matrix-vector products."""
    module = tg.trace(lambda a, b, c, v: tg.einsum("ij,jk,kl,l->i", a, b, c, v), (20, 20), (20, 20), (20, 20), (20,))
    products = [str(op.results[0].type) for op in module.walk() if op.name == "tg.dot_general"]
    assert products == ["tensor<20xf32>"] * 3


def test_a_gradient_of_the_weights_sums_over_the_batch_inside_one_convolution() -> None:
    module = tg.trace(tg.grad(lambda w, x: tg.sum(tg.conv(x, w) ** 2)), (4, 3, 3, 3), (8, 3, 9, 9))
    SimplifyPass().apply(Context(), module)
    shapes = {op.shape for op in module.walk() if isinstance(op, ConvOp)}
    assert sorted(shapes) == [(3, 4, 3, 3), (8, 4, 7, 7)]


def test_the_reference_gathers_a_few_images_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = floats(5, 4, 6, 7), floats(6, 2, 3, 2)
    at_once = np.asarray(tg.conv(x, w, padding=1, groups=2))
    monkeypatch.setattr(convolution, "GATHERED_ELEMENTS", 2 * at_once[0].size)
    np.testing.assert_allclose(np.asarray(tg.conv(x, w, padding=1, groups=2)), at_once, rtol=1e-12)


X, W = tg.zeros((2, 4, 8)), tg.zeros((6, 4, 3))

ERRORS: list[tuple[str, Callable[[], Any]]] = [
    ("4 channels are not the 3 that the weights take", lambda: tg.conv(X, tg.zeros((6, 3, 3)))),
    ("6 outputs are not divisible by 4 groups", lambda: tg.conv(X, tg.zeros((6, 1, 3)), groups=4)),
    ("4 channels are not 2 groups of 1", lambda: tg.conv(X, tg.zeros((6, 1, 3)), groups=2)),
    ("window of 9 does not fit into spatial axis 0 of extent 8 padded by 0 and 0", lambda: tg.conv(X, W, dilation=4)),
    ("strides: one integer or 1, at least 1, not 0", lambda: tg.conv(X, W, stride=0)),
    ("strides: integers, not 1.5", lambda: untyped.conv(X, W, stride=1.5)),
    ("dilations: one integer or 1, at least 1, not", lambda: tg.conv(X, W, dilation=[1, 1])),
    ("paddings: one integer or 1, at least 0, not -1", lambda: tg.conv(X, W, padding=-1)),
    ("the padding must be 'same', 'valid' or integers", lambda: tg.conv(X, W, padding="full")),
    ("1 axes need as many pairs of paddings", lambda: tg.conv(X, W, padding=[(1, 2), (0, 0)])),
    ("groups must be an integer, got 'two'", lambda: untyped.conv(X, W, groups="two")),
    ("(2 of them), got (2, 4, 8) and (6, 4, 3)", lambda: tg.conv2d(X, W)),
    ("the bias is (4,), expected (6,)", lambda: tg.conv1d(X, W, tg.zeros((4,)))),
    ("takes numbers, not bool", lambda: tg.conv(X > 0, W > 0)),
    ("do not split 4 channels evenly between weights for 6", lambda: tg.conv_transpose(X, W)),
    ("padding leaves nothing of spatial axis 0", lambda: tg.conv_transpose(X[..., :1], tg.zeros((4, 1, 3)), padding=2)),
    ("windows that span 3 do not fit axis 2 of extent 8 padded by 3 and 3", lambda: tg.max_pool(X, 3, padding=3)),
    ("windows that span 9 do not fit", lambda: tg.avg_pool(X, 9)),
    ("has no spatial axes", lambda: tg.max_pool(tg.zeros((3, 3)), 2)),
    ("'j->k' in 'i->j->k' is not made of letters", lambda: tg.einsum("i->j->k", X)),
    ("does not name the 3 axes", lambda: tg.einsum("ij", X)),
    ("names 1 operands, got 2", lambda: tg.einsum("ijk", X, X)),
    ("label 'j' has extents 4 and 8", lambda: tg.einsum("ij,jk", X[..., 0], tg.zeros((8, 2)))),
    ("has no diagonal along label 'j'", lambda: tg.einsum("ijj", X)),
    ("must name labels of the operands, each once", lambda: tg.einsum("ijk->il", X)),
    ("must name labels of the operands, each once", lambda: tg.einsum("ijk->ii", X)),
    ("the subscripts must be a string", lambda: untyped.einsum(X, X)),
    ("needs an operand", lambda: tg.einsum("i")),
    ("axes [2] of (2, 4, 8) do not match axes [0] of (6, 4, 3)", lambda: tg.tensordot(X, W, 1)),
    ("do not share 4 axes", lambda: tg.tensordot(X, W, 4)),
    ("axes must be a number or two lists", lambda: tg.tensordot(X, W, ([0], [1], [2]))),
]


@pytest.mark.parametrize(("message", "call"), ERRORS, ids=[message for message, _ in ERRORS])
def test_mistakes_are_named(message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(tg.errors.TensorgradError) as caught:
        call()
    assert message in str(caught.value)
    assert "test_convolution.py" in str(caught.value)
