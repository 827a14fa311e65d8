"""The numpy executor of `buf`: allocations, arenas, poisoning, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from buffer_text import ADD, function, kernel, normal, parse, pointwise, run, stage

from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.runtime.errors import ExecutionError, InputError

# --------------------------------------------------------------------------------------------- buffers and arenas

VECTOR = "memref<64xf32>"
"""256 bytes."""


def map_vector(source: str, target: str, op: str, affine: str = "(d0) -> (d0)") -> str:
    mapping = stage(
        [affine, "(d0) -> (d0)"],
        "p",
        [f"%b0 : {VECTOR}"],
        [f"%b1 : {VECTOR}"],
        f"%r = {op} : f32\nlinalg.yield %r : f32",
    )
    return kernel("64", [f"%{source} : {VECTOR}"], [f"%{target} : {VECTOR}"], mapping)


def add_vectors(x: str, y: str, target: str) -> str:
    addition = stage(["(d0) -> (d0)"] * 3, "p", [f"%b0 : {VECTOR}", f"%b1 : {VECTOR}"], [f"%b2 : {VECTOR}"], ADD)
    return kernel("64", [f"%{x} : {VECTOR}", f"%{y} : {VECTOR}"], [f"%{target} : {VECTOR}"], addition)


def test_allocations() -> None:
    alloc = f"%t = memref.alloc() : {VECTOR}\n"
    text = function(
        f"x {VECTOR} input, y {VECTOR} output, g {VECTOR} gradient",
        alloc
        + map_vector("x", "t", "math.exp %a0")
        + map_vector("t", "y", "arith.negf %a0")
        + f'"memref.copy"(%t, %g) : ({VECTOR}, {VECTOR}) -> ()',
    )
    x = normal(64)
    result = run(text, x=x)
    np.testing.assert_array_equal(result["output/y"], -np.exp(x))
    np.testing.assert_array_equal(result["gradient/g"], np.exp(x))


def test_a_constant_comes_from_its_attribute() -> None:
    text = """
    func.func @f(%c : memref<3xi32> {tg.name = "c", tg.role = "constant",
                                     tg.value = dense<[1, 2, 3]> : tensor<3xi32>},
                 %y : memref<3xi32> {tg.name = "y", tg.role = "output"}) {
      "memref.copy"(%c, %y) : (memref<3xi32>, memref<3xi32>) -> ()
      func.return
    }"""
    assert run(text)["output/y"].tolist() == [1, 2, 3]


def planned(views: dict[str, tuple[int, str]], body: str, size: int = 1024) -> str:
    """Returns a planned function: views of one workspace arena by offset, and named ones in separate arenas."""
    lines = [f'%w = buf.arena "workspace" role = "workspace" : memref<{size}xi8>']
    for name, (offset, role) in views.items():
        if role == "workspace":
            lines.append(f"%{name} = buf.view %w[{offset}] : memref<{size}xi8> to {VECTOR}")
            continue
        lines.append(f'%{name}_arena = buf.arena "{name}" role = "{role}" : memref<256xi8>')
        attributes = f'{{tg.name = "{name}", tg.role = "{role}"}}'
        lines.append(f"%{name} = buf.view %{name}_arena[0] attributes {attributes} : memref<256xi8> to {VECTOR}")
    return "func.func @f() {\n" + "\n".join(lines) + "\n" + body + "\nfunc.return\n}"


CHAIN = (
    map_vector("x", "a", "math.exp %a0")
    + map_vector("a", "b", "arith.negf %a0")
    + map_vector("b", "c", "math.exp %a0")
    + add_vectors("b", "c", "y")
)
"""`a` is dead when `c` is written; `b` is not."""


def chain(a: int, b: int, c: int) -> str:
    views = {
        "x": (0, "input"),
        "y": (0, "output"),
        "a": (a, "workspace"),
        "b": (b, "workspace"),
        "c": (c, "workspace"),
    }
    return planned(views, CHAIN)


@pytest.mark.parametrize("offsets", [(0, 256, 0), (128, 384, 0), (0, 0, 256)])
def test_a_correct_plan(offsets: tuple[int, int, int]) -> None:
    x = normal(64)
    b = -np.exp(x)
    np.testing.assert_array_equal(run(chain(*offsets), x=x)["output/y"], b + np.exp(b))


@pytest.mark.parametrize("offsets", [(0, 256, 256), (0, 256, 128), (0, 128, 512), (512, 0, 252)])
def test_a_wrong_plan_shows(offsets: tuple[int, int, int]) -> None:
    assert np.isnan(run(chain(*offsets), x=normal(64))["output/y"]).any()


def test_what_is_read_before_it_is_written_is_nan() -> None:
    text = planned({"a": (0, "workspace"), "y": (0, "output")}, map_vector("a", "y", "arith.negf %a0"))
    assert np.isnan(run(text)["output/y"]).all()


def update(affine: str = "(d0) -> (d0)") -> str:
    updating = stage(
        [affine, "(d0) -> (d0)", "(d0) -> (d0)"],
        "p",
        [f"%b0 : {VECTOR}", f"%b1 : {VECTOR}"],
        [f"%b2 : {VECTOR}"],
        ADD,
    )
    body = kernel("64", [f"%p : {VECTOR}", f"%g : {VECTOR}"], [f"%p : {VECTOR}"], updating)
    views = {"p": (0, "parameter"), "q": (0, "parameter"), "g": (0, "input"), "y": (0, "output")}
    return planned(views, body + map_vector("p", "y", "arith.negf %a0"))


def test_a_parameter_updated_in_place() -> None:
    p, q, g = normal(64), normal(64), 2 * normal(64)
    result = run(update(), p=p, q=q, g=g)
    assert sorted(result) == ["output/y", "update/p"]
    np.testing.assert_array_equal(result["update/p"], p + g)
    np.testing.assert_array_equal(result["output/y"], -(p + g))
    np.testing.assert_array_equal(p, normal(64))


def test_a_race_in_place_shows() -> None:
    values = {"p": normal(64), "q": normal(64), "g": normal(64)}
    assert np.isnan(run(update("(d0) -> (63 - d0)"), **values)["update/p"]).all()


def two_stages(order: tuple[int, int]) -> str:
    """Returns `y = -p` and `p = p + g` as the stages of one kernel, in either order."""
    arguments = [f"%b0 : {VECTOR}", f"%b1 : {VECTOR}"]
    negate = "%r = arith.negf %a0 : f32\nlinalg.yield %r : f32"
    stages = [
        stage(["(d0) -> (d0)"] * 2, "p", arguments[:1], [f"%b2 : {VECTOR}"], negate),
        stage(["(d0) -> (d0)"] * 3, "p", arguments, [f"%b3 : {VECTOR}"], ADD),
    ]
    ins, outs = [f"%p : {VECTOR}", f"%g : {VECTOR}"], [f"%y : {VECTOR}", f"%p : {VECTOR}"]
    views = {"p": (0, "parameter"), "g": (0, "input"), "y": (0, "output")}
    return planned(views, kernel("64", ins, outs, "\n".join(stages[i] for i in order)))


def test_an_old_value_is_read_before_it_is_overwritten() -> None:
    p, g = normal(64), 2 * normal(64)
    result = run(two_stages((0, 1)), p=p, g=g)
    np.testing.assert_array_equal(result["output/y"], -p)
    np.testing.assert_array_equal(result["update/p"], p + g)
    assert np.isnan(run(two_stages((1, 0)), p=p, g=g)["output/y"]).all()


def test_a_copy_updates_a_state() -> None:
    copy = f'"memref.copy"(%t, %s) : ({VECTOR}, {VECTOR}) -> ()'
    views = {"s": (0, "state"), "t": (128, "workspace")}
    text = planned(views, map_vector("s", "t", "math.exp %a0") + copy)
    s = normal(64)
    np.testing.assert_array_equal(run(text, s=s)["update/s"], np.exp(s))


# -------------------------------------------------------------------------------------------------------- errors

NEGATE = pointwise("f32", "%r = arith.negf %a0 : f32\nlinalg.yield %r : f32", 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "missing values: x0"),
        ({"x0": normal(4), "x1": normal(4)}, "unknown values: x1"),
        ({"x0": normal(5)}, r"'x0' has shape \[5\], not \[4\]"),
        ({"x0": np.arange(4)}, "'x0' has dtype int64, not float32"),
    ],
)
def test_wrong_values(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(NEGATE, **values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            pointwise("f32", "memref.store %a0, %b1[%i] : memref<4xf32>\nlinalg.yield %a0 : f32", 1).replace(
                "memref.store", "%i = linalg.index 0 : index\nmemref.store"
            ),
            "memref.store is not supported",
        ),
        (
            function(f"x {VECTOR} input, y {VECTOR} output", "%c = arith.constant 1 : i32"),
            "arith.constant is not supported in a function",
        ),
        (NEGATE + NEGATE.replace("@f", "@g"), "expected exactly one function, the module has f, g"),
    ],
)
def test_what_is_not_supported(text: str, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        BufferExecutor(parse(text))


def test_points_that_write_one_element() -> None:
    text = NEGATE.replace("(d0) -> (d0)], iterator", "(d0) -> ((d0 mod 2) * 3)], iterator")
    text = text.replace("affine_map<(d0) -> (d0)>], iter", "affine_map<(d0) -> ((d0 mod 2) * 3)>], iter")
    with pytest.raises(ExecutionError, match="several points write one element"):
        run(text, x0=normal(4))
