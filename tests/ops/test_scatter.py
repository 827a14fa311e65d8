"""Scatters compared with PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.errors import DTypeError, OptionError, ShapeError, TraceError

untyped: Any = tg
"""The package as code without types calls it."""

SHAPES = [((4, 5), (3, 7), 1), ((4, 5), (9, 5), 0), ((3,), (200,), 0), ((2, 3, 4), (2, 100, 3), 1)]
"""Of the tensor and of the indices, and the axis."""


@pytest.mark.in_turns(6)
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_reductions_and_their_gradients(reduce: str, include_self: bool) -> None:
    random = np.random.default_rng(0)
    for extents, places, axis in SHAPES:
        x, weights = (random.normal(size=extents).astype(np.float32) for _ in range(2))
        updates = random.uniform(0.5, 1.5, places).astype(np.float32)
        indices = random.integers(0, extents[axis], places).astype(np.int32)
        theirs = [torch.tensor(part, requires_grad=True) for part in (x, updates)]
        wide = torch.tensor(indices, dtype=torch.int64)
        expected = torch.scatter_reduce(theirs[0], axis, wide, theirs[1], reduce, include_self=include_self)
        torch.sum(expected * torch.tensor(weights)).backward()

        def ours(x: tg.Tensor, u: tg.Tensor, axis: int = axis, indices: np.ndarray = indices) -> tg.Tensor:
            return tg.scatter_reduce(x, axis, indices, u, reduce, include_self)

        np.testing.assert_allclose(ours(tg.array(x), tg.array(updates)), expected.detach(), rtol=1e-5, atol=1e-5)
        gradients = tg.grad(lambda x, u, f=ours, w=weights: tg.sum(f(x, u) * w), argnums=(0, 1))(x, updates)
        for gradient, part in zip(gradients, theirs, strict=True):
            assert part.grad is not None
            np.testing.assert_allclose(gradient, part.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("compiled_blocks")
@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize("place", ["numpy", "cpu", "wgpu"])
def test_updates_behind_the_last_index_are_left_out(place: tg.DeviceName) -> None:
    random = np.random.default_rng(2)
    x, updates = random.normal(size=(3, 5)).astype(np.float32), random.normal(size=(4, 6)).astype(np.float32)
    indices = np.array([[4, 0, 2], [1, 3, 0]], np.int32)
    wide = torch.tensor(indices, dtype=torch.int64)
    functions: dict[str, tuple[Any, Any]] = {
        "scatter": (tg.scatter, torch.scatter),
        "scatter_add": (tg.scatter_add, torch.scatter_add),
        "amax": (
            lambda x, axis, i, u: tg.scatter_reduce(x, axis, i, u, "amax"),
            lambda x, axis, i, u: torch.scatter_reduce(x, axis, i, u, "amax"),
        ),
    }
    for name, (function, theirs) in functions.items():
        parts: list[Any] = [tg.tensor(value, device=place, requires_grad=True) for value in (x, updates)]
        others = [torch.tensor(value, requires_grad=True) for value in (x, updates)]
        actual, expected = function(parts[0], 1, indices, parts[1]), theirs(others[0], 1, wide, others[1])
        np.testing.assert_allclose(actual.numpy(), expected.detach(), err_msg=name)
        # PyTorch has no gradient where there are more updates than indices.
        expected = theirs(others[0], 1, wide, others[1][:2, :3])
        (actual**2).sum().backward()
        (expected**2).sum().backward()
        for part, other in zip(parts, others, strict=True):
            assert other.grad is not None
            np.testing.assert_allclose(part.grad.numpy(), other.grad.numpy(), rtol=1e-6, err_msg=name)


def test_means_of_integers_round_down() -> None:
    means = tg.scatter_reduce([7, -7], 0, [0, 1], [2, 2], "mean")
    assert means.numpy().tolist() == [4, -3] and means.dtype == tg.i32


def test_nothing_to_write() -> None:
    x, none = tg.array([1.0, 2.0]), np.zeros(0, np.int32)
    assert tg.scatter(x, 0, none, np.zeros(0)).numpy().tolist() == [1, 2]
    assert tg.scatter_reduce(x, 0, none, np.zeros(0), "amax", include_self=False).numpy().tolist() == [1, 2]


def test_half_floats_are_reduced_in_full() -> None:
    x = tg.zeros(1, dtype="f16")
    updates = np.array([1024] + [0.5] * 64, np.float16)
    assert tg.scatter_reduce(x, 0, [0] * 65, updates, "sum").numpy().tolist() == [1056]


def test_rows_of_a_batch() -> None:
    random = np.random.default_rng(1)
    x, updates = random.normal(size=(3, 4)).astype(np.float32), random.normal(size=(3, 6)).astype(np.float32)
    indices = random.integers(0, 4, (3, 6)).astype(np.int32)
    for reduce in ("prod", "amax"):
        mapped = tg.vmap(lambda x, i, u, r=reduce: tg.scatter_reduce(x, 0, i, u, r))(x, indices, updates)
        assert np.array_equal(mapped, tg.scatter_reduce(x, 1, indices, updates, reduce))
    assert np.array_equal(
        tg.vmap(lambda x, i, u: tg.scatter(x, 0, i, u))(x, indices, updates), tg.scatter(x, 1, indices, updates)
    )


def test_the_number_of_segments() -> None:
    x, numbers = tg.array([1.0, 2.0, 4.0]), np.array([0, 2, 0])
    assert tg.segment_sum(x, numbers).tolist() == [5, 0, 2] and tg.segment_sum(x, -1 - numbers).shape == (0,)
    assert untyped.segment_sum(x, numbers, np.int64(2)).tolist() == [5, 0] and tg.segment_sum(
        [], np.zeros(0, int), 2
    ).tolist() == [0, 0]
    assert tg.jit(tg.segment_max, static="num_segments")(x, numbers, 2).tolist() == [4, -np.inf]
    assert tg.segment_min(np.array([3], np.int8), [1]).tolist() == [127, 3]
    with pytest.raises(TraceError, match=r"segment_mean: .* traced, so num_segments= must say how many there are"):
        tg.jit(tg.segment_mean)(x, numbers)
    for wrong in (-1, 2.0, True, "3"):
        with pytest.raises(OptionError, match="segment_prod: num_segments must be an integer from 0"):
            untyped.segment_prod(x, numbers, wrong)
    with pytest.raises(ShapeError, match=r"segment_max: x \(3,\) does not begin with the axes of segment_ids \(2,\)"):
        tg.segment_max(x, [0, 1])
    with pytest.raises(DTypeError, match="segment_sum: indices must be integers, got f32"):
        tg.segment_sum(x, x)
    with pytest.raises(DTypeError, match="segment_sum: takes numbers, not bool"):
        tg.segment_sum(x > 1, numbers)


@pytest.mark.usefixtures("compiled_blocks")
@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize("place", ["numpy", "cpu", "wgpu"])
def test_segments_of_rows_as_pytorch(place: tg.DeviceName) -> None:
    """Values and gradients of eager tensors, beside PyTorch's reductions of whole rows."""
    random = np.random.default_rng(3)
    x, numbers = random.uniform(0.5, 1.5, (40, 3)).astype(np.float32), random.integers(0, 5, 40).astype(np.int32)
    for name, theirs in {"sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "min": "amin"}.items():
        ours, other = tg.tensor(x, device=place, requires_grad=True), torch.tensor(x, requires_grad=True)
        actual = getattr(tg, f"segment_{name}")(ours, numbers, 5)
        rows = torch.tensor(numbers, dtype=torch.int64)[:, None].expand(40, 3)
        expected = torch.zeros(5, 3).scatter_reduce(0, rows, other, theirs, include_self=False)
        np.testing.assert_allclose(actual.numpy(), expected.detach(), rtol=1e-5, err_msg=name)
        tg.sum(tg.sin(actual)).backward()
        torch.sum(torch.sin(expected)).backward()
        assert other.grad is not None
        np.testing.assert_allclose(ours.grad.numpy(), other.grad, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["cpu", "wgpu"])
def test_known_indices_give_the_same_bits(place: tg.DeviceName) -> None:
    """The same bits as with traced indices; of both signs, and numbers that belong to no row."""
    random = np.random.default_rng(5)
    x, rows = random.normal(size=(300, 5)).astype(np.float32), random.normal(size=(3, 300)).astype(np.float32)
    numbers = random.integers(-3, 103, 300)
    for dtype in ("i32", "u32", "i64"):
        indices = [np.asarray(numbers).astype({"i32": np.int32, "u32": np.uint32, "i64": np.int64}[dtype])]
        indices.append(np.stack([np.roll(indices[0], shift) for shift in range(3)]))

        def sums(x: tg.Tensor, rows: tg.Tensor, i: Any, j: Any) -> tuple[tg.Tensor, tg.Tensor]:
            return tg.segment_sum(x, i, 100), tg.scatter_reduce(tg.zeros((3, 100)), 1, tg.clip(j, 0, 99), rows, "sum")

        whole = tg.jit(sums, device=place)(x, rows, *indices)
        known = tg.jit(lambda x, rows, i=indices, f=sums: f(x, rows, *i), device=place)(x, rows)
        for ours, theirs in zip(known, whole, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=dtype)


def test_one_counting_sort_for_all_kinds() -> None:
    """On a CPU a scatter folds the updates of each position, in the order that counting the indices gives."""
    random = np.random.default_rng(6)
    x, updates = (random.normal(size=(3, extent)).astype(np.float32) for extent in (400, 200))
    indices = random.integers(0, 400, (3, 200)).astype(np.int32)
    functions: list[Any] = [
        lambda x, i, u, r=reduce, s=include_self: tg.scatter_reduce(x, 1, i, u, r, s)
        for reduce in ("sum", "mean", "prod", "amax", "amin")
        for include_self in (True, False)
    ]
    functions.append(lambda x, i, u: tg.scatter(x, 1, i, u))
    for function in functions:
        compiled = tg.jit(function, device="cpu")
        np.testing.assert_array_equal(
            compiled(x, indices, updates), tg.jit(function, device="numpy")(x, indices, updates)
        )
        module = compiled.module("buf")
        # The last one is found without a loop; what isn't known is where there are updates, unless all are counted.
        assert module.count("buf.counting_sort") == 1 and module.count("scf.for") <= 2


@pytest.mark.usefixtures("compiled_blocks")
@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize("place", ["numpy", "cpu", "wgpu"])
def test_segments_of_narrow_integers(place: tg.DeviceName) -> None:
    """Where there are no rows, the least or largest number of the dtype."""
    numbers = np.repeat(np.array([4, 0], np.int32), 60)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16):
        rows, bounds = np.tile(np.array([3, 5, 4], dtype), 40), np.iinfo(dtype)
        for name, empty, found in (("segment_max", bounds.min, 5), ("segment_min", bounds.max, 3)):
            segments = tg.jit(lambda x, i, n=name: getattr(tg, n)(x, i, 100), device=place)(rows, numbers)
            assert segments.dtype.name == np.dtype(dtype).name
            assert np.asarray(segments)[:5].tolist() == [found, *[empty] * 3, found], (dtype, name)


@pytest.mark.parametrize("place", ["cpu", "wgpu"])
def test_positions_that_are_floats(place: tg.DeviceName) -> None:
    """The largest position of an index is read from the order, if it is an integer."""
    numbers = np.random.default_rng(0).integers(0, 300, 700).astype(np.int32)

    def last(numbers: Any) -> Any:
        return tg.segment_max(tg.arange(700, dtype="f32"), numbers, 300)

    np.testing.assert_array_equal(tg.jit(last, device=place)(numbers), tg.jit(last, device="numpy")(numbers))


def test_gradients_of_products_that_overflow_in_part() -> None:
    """Products of some of the updates may overflow where that of all doesn't."""
    updates = np.array([1e-30, 1e30, 1e30, 1e-30, 0.0, 2.0], np.float32)
    gradient = tg.grad(lambda u: tg.sum(tg.segment_prod(u, [0, 0, 0, 0, 1, 1])))(updates)
    np.testing.assert_allclose(gradient, [1e30, 1e-30, 1e-30, 1e30, 2, 0], rtol=1e-5)
