"""`tree_map` and `ravel_pytree`: structures, dtypes, derivatives, and where two trees differ."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import DTypeError, InputError, ShapeError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


TREE = {"layers": [Layer(X, np.float32(2.0)), Pair(3, (tg.ones(2), None))], "empty": {}}


def test_several_trees_are_mapped_together() -> None:
    mapped = tg.tree_map(lambda x, y, z: x + y * z, TREE, TREE, TREE)
    assert isinstance(mapped["layers"][0], Layer) and isinstance(mapped["layers"][1], Pair) and mapped["empty"] == {}
    assert np.array_equal(mapped["layers"][0].w, X + X**2) and mapped["layers"][1].first == 12
    assert np.array_equal(mapped["layers"][1].second[0], [2, 2]) and mapped["layers"][1].second[1] is None
    assert tg.tree_map(str, {"b": 1, "a": None, "c": "x"}) == {"a": None, "b": "1", "c": "x"}
    assert tg.tree_map(lambda x, y: x - y, 3, 1) == 2 and tg.tree_map(abs, ()) == ()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (3, r"the trees differ: a dict of a, b and a leaf \(int\)"),
        ({"a": [1, (2, None)]}, "the trees differ: a dict of a, b and a dict of a$"),
        ({"a": (1, (2, None)), "b": 0}, "differ at a: a list of 2 and a tuple of 2"),
        ({"a": [1, (2, None, 3)], "b": 0}, r"differ at a\.1: a tuple of 2 and a tuple of 3"),
        ({"a": [1, (2, 3)], "b": 0}, r"differ at a\.1\.1: None and a leaf \(int\)"),
        ({"a": [{}, (2, None)], "b": 0}, r"differ at a\.0: a leaf \(int\) and a dict of 0"),
    ],
)
def test_where_trees_differ(other: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=rf"{__file__}:\d+: tree_map: .*{message}"):
        tg.tree_map(lambda x, y: x, {"a": [1, (2, None)], "b": 0}, other)
    with pytest.raises(ShapeError, match=rf"{__file__}:\d+: tree_map: the trees differ"):
        tg.tree_map(lambda x, y, z: x, other, other, {"a": [1, (2, None)], "b": 0})


def test_keys_that_read_the_same_are_refused() -> None:
    with pytest.raises(InputError, match=r"the keys '1' and 1, which have the same string"):
        tg.tree_map(abs, {"a": {"1": 2, 1: 3}})
    assert tg.tree_map(abs, {1: -2, "a": -3, (1, 2): 4}) == {1: 2, "a": 3, (1, 2): 4}
    with pytest.raises(ShapeError, match=r"differ at a: a dict of 1 and a dict of 1 \(int\)$"):
        tg.tree_map(lambda x, y: x, {"a": {"1": 2}}, {"a": {1: 2}})


@dataclasses.dataclass(frozen=True)
class Counted:
    """A dataclass that counts the calls of its constructor, and takes no other values than arrays."""

    x: Any
    limit: dataclasses.InitVar[float]
    size: int = dataclasses.field(init=False)
    calls: ClassVar[int] = 0

    def __post_init__(self, limit: float) -> None:
        Counted.calls += 1
        object.__setattr__(self, "size", len(self.x))
        object.__setattr__(self, "limited", limit)

    @functools.cached_property
    def total(self) -> Any:
        return tg.sum(self.x)


@dataclasses.dataclass(slots=True)
class Slotted:
    x: Any
    size: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.size = len(self.x)


def test_a_dataclass_is_rebuilt_without_its_constructor() -> None:
    made: Any = Counted(np.ones(3, np.float32), limit=2.0)
    assert made.total == 3
    Counted.calls = 0
    mapped = tg.tree_map(lambda x: 2.0, made)
    assert (mapped.x, mapped.size, mapped.limited, Counted.calls) == (2.0, 3, 2.0, 0)
    assert float(tg.jit(lambda batch: batch.total * batch.size)(made)) == 9, "what was cached is computed anew"
    assert Counted.calls == 0
    slotted = tg.tree_map(lambda x: x[0], Slotted(np.ones(3)))
    assert (slotted.x, slotted.size) == (1, 3)


def test_other_attributes_are_part_of_the_structure() -> None:
    scaled = tg.jit(lambda batch: batch.x * batch.size, device="numpy")
    short, long = Slotted(np.ones(2)), Slotted(np.ones(2))
    long.size = 5
    assert [float(scaled(batch)[0]) for batch in (short, long, short)] == [2, 5, 2] and scaled.specializations == 2
    by_row = tg.jit(lambda batch: batch.x * batch.size["rows"][0], device="numpy")
    for values in ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0]):
        batch: Any = Slotted(np.ones(2))
        batch.size = {"rows": [np.array(values)]}
        assert by_row(batch).tolist() == values
    assert by_row.specializations == 2
    with pytest.raises(ShapeError, match="a Slotted of x and a Slotted of x, whose other attributes differ"):
        tg.tree_map(lambda x, y: x, short, long)


def test_models_are_trees() -> None:
    first, second = (tg.nn.MLP(2, 3, 1).initialized(seed) for seed in (0, 1))
    between = tg.tree_map(lambda p, q: 0.5 * (p + q), first, second)
    assert np.allclose(between.layers[0].weight, 0.5 * (first.layers[0].weight + second.layers[0].weight))
    assert between(np.ones((4, 2), np.float32)).shape == (4, 1)
    with pytest.raises(ShapeError, match=r"a MLP of layers\.0\.weight, .* and a MLP of "):
        tg.tree_map(lambda p, q: p, first, tg.nn.MLP(2, (3, 3), 1).initialized(0))


def test_a_vector_goes_back_to_its_tree() -> None:
    vector, unravel = tg.ravel_pytree(TREE)
    assert vector.dtype == tg.f32 and vector.tolist() == [*X.ravel(), 2, 3, 1, 1]
    tree = unravel(10 * vector)
    assert np.array_equal(tree["layers"][0].w, 10 * X) and tree["layers"][0].b.shape == ()
    first = tree["layers"][1].first
    assert first.dtype == tg.i32 and int(first) == 30, "each leaf keeps its dtype"
    assert tg.ravel_pytree([np.int8(3), True])[0].dtype == tg.i8
    nothing, rebuild = tg.ravel_pytree({"a": None})
    assert nothing.shape == (0,) and rebuild(nothing) == {"a": None}
    for wrong in (vector[1:], tg.reshape(vector, (1, -1)), 0.0):
        with pytest.raises(ShapeError, match=r"unravel: takes a vector of shape \(10,\), not \("):
            unravel(wrong)
    with pytest.raises(DTypeError, match="cannot use str"):
        tg.ravel_pytree({"a": "text"})


def energy(tree: Any) -> Any:
    return tg.sum(tg.sin(tree["w"]) * tree["w"]) * tree["b"][0]


POINT = {"w": X, "b": (0.5,)}


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_derivatives_go_through_both(device: tg.DeviceName) -> None:
    vector, unravel = tg.ravel_pytree(POINT)
    tg.testing.check_grads(lambda w, b: tg.ravel_pytree({"w": w, "b": (b,)})[0] ** 2, (X, 0.5))
    wide = tg.ravel_pytree(tg.tree_map(lambda x: tg.array(x, "f64"), POINT))[1]
    tg.testing.check_grads(lambda v: energy(wide(v)), (vector,))
    gradient = tg.jit(tg.grad(lambda v: energy(unravel(v))), device=device)(vector)
    expected = tg.ravel_pytree(tg.grad(energy)(POINT))[0]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
    inside = tg.jit(lambda tree: tg.tree_map(lambda x: 2 * x, tg.ravel_pytree(tree)[1](vector)), device=device)(POINT)
    np.testing.assert_allclose(inside["w"], 2 * X)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_gradients_of_eager_tensors_go_through(device: tg.DeviceName) -> None:
    tree = tg.tree_map(lambda x: tg.tensor(x, device=device, requires_grad=True), POINT)
    vector, unravel = tg.ravel_pytree(tree)
    energy(unravel(vector * 1.0)).backward()
    expected = tg.grad(energy)(POINT)
    gradients = tg.tree_map(lambda x: x.grad, tree)
    tg.testing.assert_close(tg.tree_map(np.asarray, gradients), tg.tree_map(np.asarray, expected))
