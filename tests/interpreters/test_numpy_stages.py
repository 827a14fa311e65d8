"""Stages interpreted with numpy: index maps, reductions, contractions, loads, and tiling of the iteration space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from buffer_text import ADD, function, generator, kernel, normal, pointwise, run, stage

from tensorgrad.interpreters import stages as numpy_stages
from tensorgrad.runtime.errors import ExecutionError

# ---------------------------------------------------------------------------------------------------- index maps


@pytest.mark.parametrize(
    ("kind", "affine", "expected"),
    [
        ("memref<3xf32>", "(d0, d1) -> (d1)", lambda x, y: x[None, :] + y),
        ("memref<3x4xf32>", "(d0, d1) -> (d1, d0)", lambda x, y: x.T + y),
        ("memref<12xf32>", "(d0, d1) -> (d0 * 3 + d1)", lambda x, y: x.reshape(4, 3) + y),
        ("memref<4x3xf32>", "(d0, d1) -> (d0, 2 - d1)", lambda x, y: x[:, ::-1] + y),
        (
            "memref<2x6xf32>",
            "(d0, d1) -> ((d0 * 3 + d1) floordiv 6, (d0 * 3 + d1) mod 6)",
            lambda x, y: x.reshape(4, 3) + y,
        ),
        ("memref<5x3xf32>", "(d0, d1) -> (2, d1)", lambda x, y: x[2] + y),
        ("memref<f32>", "(d0, d1) -> ()", lambda x, y: x + y),
        ("memref<4x4xf32>", "(d0, d1) -> (d0, d0)", lambda x, y: np.diag(x)[:, None] + y),
    ],
)
def test_reads_through_maps(kind: str, affine: str, expected: Any) -> None:
    full = "memref<4x3xf32>"
    body = kernel(
        "4, 3",
        [f"%x : {kind}", f"%y : {full}"],
        [f"%z : {full}"],
        stage(
            [affine, "(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0, d1)"],
            "pp",
            [f"%b0 : {kind}", f"%b1 : {full}"],
            [f"%b2 : {full}"],
            ADD,
        ),
    )
    shape = [int(part) for part in kind[len("memref<") : -1].split("x")[:-1]]
    x, y = normal(*shape), normal(4, 3)
    result = run(function(f"x {kind} input, y {full} input, z {full} output", body), x=x, y=y)
    np.testing.assert_array_equal(result["output/z"], expected(x, y))
    assert result["output/z"].dtype == np.float32


@pytest.mark.parametrize(
    ("kind", "affine", "expected"),
    [
        ("memref<3x4xf32>", "(d0, d1) -> (d1, d0)", lambda x: x.T),
        ("memref<12xf32>", "(d0, d1) -> (d0 * 3 + d1)", lambda x: x.reshape(12)),
        (
            "memref<2x6xf32>",
            "(d0, d1) -> ((d0 * 3 + d1) floordiv 6, (d0 * 3 + d1) mod 6)",
            lambda x: x.reshape(2, 6),
        ),
        ("memref<4x1x3xf32>", "(d0, d1) -> (d0, 0, d1)", lambda x: x[:, None]),
    ],
)
def test_writes_through_maps(kind: str, affine: str, expected: Any) -> None:
    full = "memref<4x3xf32>"
    body = kernel(
        "4, 3",
        [f"%x : {full}"],
        [f"%y : {kind}"],
        stage(
            ["(d0, d1) -> (d0, d1)", affine],
            "pp",
            [f"%b0 : {full}"],
            [f"%b1 : {kind}"],
            "linalg.yield %a0 : f32",
        ),
    )
    x = normal(4, 3)
    result = run(function(f"x {full} input, y {kind} output", body), x=x)
    np.testing.assert_array_equal(result["output/y"], expected(x))


def test_what_no_point_writes_is_nan() -> None:
    body = kernel(
        "2",
        ["%x : memref<2xf32>"],
        ["%y : memref<5xf32>"],
        stage(
            ["(d0) -> (d0)", "(d0) -> (d0 * 2 + 1)"],
            "p",
            ["%b0 : memref<2xf32>"],
            ["%b1 : memref<5xf32>"],
            "linalg.yield %a0 : f32",
        ),
    )
    result = run(function("x memref<2xf32> input, y memref<5xf32> output", body), x=np.array([1, 2], np.float32))
    np.testing.assert_array_equal(result["output/y"], np.array([np.nan, 1, np.nan, 2, np.nan], np.float32))


def test_booleans_are_words() -> None:
    body = """
      %t = arith.constant true
      %n = arith.xori %a0, %t : i1
      %r = arith.andi %n, %a1 : i1
      linalg.yield %r : i1"""
    x, y = np.array([True, False, True, False]), np.array([True, True, False, False])
    result = run(pointwise("i1", body, 2), x0=x, x1=y)
    assert result["output/y"].tolist() == [False, True, False, False]


# ---------------------------------------------------------------------------------------------------- reductions


def reduction(kind: str, op: str, suffix: str = "") -> str:
    body = f"%r = arith.{op} %a1, %a0 : {kind}\nlinalg.yield %r : {kind}"
    source, target = f"memref<3x5x4x{kind}>", f"memref<5x{kind}>"
    reducing = stage(
        ["(d0, d1, d2) -> (d1, d0, d2)", "(d0, d1, d2) -> (d0)"],
        "prr",
        [f"%b0 : {source}"],
        [f"%b1 : {target}"],
        body,
    )
    return function(
        f"x {source} input, y {target} output", kernel("5", [f"%x : {source}"], [f"%y : {target}"], reducing)
    )


@pytest.mark.parametrize(
    ("op", "function_"),
    [("addf", np.sum), ("mulf", np.prod), ("maximumf", np.max), ("minimumf", np.min)],
)
def test_float_reductions(op: str, function_: Any) -> None:
    x = normal(3, 5, 4)
    result = run(reduction("f32", op), x=x)["output/y"]
    np.testing.assert_allclose(result, function_(x, (0, 2)), rtol=1e-5)


def test_maximum_of_nan_is_nan() -> None:
    x = normal(3, 5, 4)
    x[1, 2, 3] = np.nan
    assert np.isnan(run(reduction("f32", "maximumf"), x=x)["output/y"]).tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("op", "function_"),
    [
        ("addi", np.sum),
        ("maxsi", np.max),
        ("minsi", np.min),
        ("maxui", lambda x, axes: np.max(x.view(np.uint32), axes).view(np.int32)),
        ("minui", lambda x, axes: np.min(x.view(np.uint32), axes).view(np.int32)),
    ],
)
def test_integer_reductions(op: str, function_: Any) -> None:
    x = generator().integers(-100, 100, (3, 5, 4)).astype(np.int32)
    np.testing.assert_array_equal(run(reduction("i32", op), x=x)["output/y"], function_(x, (0, 2)))


def test_sum_over_a_loop_that_nothing_reads() -> None:
    body = """
      %c = arith.constant 2.0 : f32
      %r = arith.addf %a2, %c : f32
      linalg.yield %r : f32"""
    summing = "%s = memref.alloca() {buf.shape_only} : memref<7xi1>\n" + stage(
        ["(d0, d1) -> (d0)", "(d0, d1) -> (d1)", "(d0, d1) -> (d0)"],
        "pr",
        ["%b0 : memref<3xf32>", "%s : memref<7xi1>"],
        ["%b1 : memref<3xf32>"],
        body,
    )
    text = function(
        "x memref<3xf32> input, y memref<3xf32> output",
        kernel("3", ["%x : memref<3xf32>"], ["%y : memref<3xf32>"], summing),
    )
    assert run(text, x=normal(3))["output/y"].tolist() == [14.0, 14.0, 14.0]


def test_two_outputs_of_one_stage() -> None:
    body = """
      %v = math.exp %a0 : f32
      %r = arith.addf %a1, %v : f32
      %m = arith.maximumf %a2, %v : f32
      linalg.yield %r, %m : f32, f32"""
    outputs = ["%b1 : memref<4xf32>", "%b2 : memref<4xf32>"]
    both = ["(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0)", "(d0, d1) -> (d0)"]
    two_outputs = stage(both, "pr", ["%b0 : memref<4x3xf32>"], outputs, body)
    text = function(
        "x memref<4x3xf32> input, s memref<4xf32> output, e memref<4xf32> output",
        kernel("4", ["%x : memref<4x3xf32>"], ["%s : memref<4xf32>", "%e : memref<4xf32>"], two_outputs),
    )
    x = normal(4, 3)
    result = run(text, x=x)
    np.testing.assert_allclose(result["output/s"], np.exp(x).sum(1), rtol=1e-6)
    np.testing.assert_array_equal(result["output/e"], np.exp(x).max(1))


def softmax(rows: int, columns: int) -> str:
    wide, tall = f"memref<{rows}x{columns}xf32>", f"memref<{rows}xf32>"
    both, row = "(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0)"
    shifted = "%s = arith.subf %a0, %a1 : f32\n%e = math.exp %s : f32\n"
    stages = [
        f"%m = memref.alloca() : {tall}\n%t = memref.alloca() : {tall}",
        stage(
            [both, row],
            "pr",
            [f"%b0 : {wide}"],
            [f"%m : {tall}"],
            "%r = arith.maximumf %a0, %a1 : f32\nlinalg.yield %r : f32",
        ),
        stage(
            [both, row, row],
            "pr",
            [f"%b0 : {wide}", f"%m : {tall}"],
            [f"%t : {tall}"],
            shifted + "%r = arith.addf %a2, %e : f32\nlinalg.yield %r : f32",
        ),
        stage(
            [both, row, row, both],
            "pp",
            [f"%b0 : {wide}", f"%m : {tall}", f"%t : {tall}"],
            [f"%b1 : {wide}"],
            shifted + "%r = arith.divf %e, %a2 : f32\nlinalg.yield %r : f32",
        ),
    ]
    return function(
        f"x {wide} input, y {wide} output",
        kernel(str(rows), [f"%x : {wide}"], [f"%y : {wide}"], "\n".join(stages)),
    )


def reference_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_softmax_of_rows() -> None:
    x = normal(6, 9)
    result = run(softmax(6, 9), x=x)
    np.testing.assert_allclose(result["output/y"], reference_softmax(x), rtol=1e-6)


def test_pieces_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_stages, "TEMPORARY_BYTES", 0)
    x = normal(70, 5000)
    result = run(softmax(70, 5000), x=x)
    np.testing.assert_allclose(result["output/y"], reference_softmax(x), rtol=1e-5)


def test_empty_reductions() -> None:
    source, target = "memref<3x0xf32>", "memref<3xf32>"
    summing = stage(["(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0)"], "pr", [f"%b0 : {source}"], [f"%b1 : {target}"], ADD)
    text = function(
        f"x {source} input, y {target} output", kernel("3", [f"%x : {source}"], [f"%y : {target}"], summing)
    )
    assert run(text, x=np.zeros((3, 0), np.float32))["output/y"].tolist() == [0, 0, 0]


# -------------------------------------------------------------------------------------------------- contractions


def test_matrix_product_with_an_epilogue(monkeypatch: pytest.MonkeyPatch) -> None:
    m, k, n = 64, 784, 32
    a, w, c, b = f"memref<{m}x{k}xf32>", f"memref<{k}x{n}xf32>", f"memref<{m}x{n}xf32>", f"memref<{n}xf32>"
    stages = [
        f"%l = memref.alloca() : {c}",
        stage(
            ["(i, j, k) -> (i, k)", "(i, j, k) -> (k, j)", "(i, j, k) -> (i, j)"],
            "ppr",
            [f"%b0 : {a}", f"%b1 : {w}"],
            [f"%l : {c}"],
            "%p = arith.mulf %a0, %a1 : f32\n%r = arith.addf %a2, %p : f32\nlinalg.yield %r : f32",
        ),
        stage(
            ["(i, j) -> (i, j)", "(i, j) -> (j)", "(i, j) -> (i, j)"],
            "pp",
            [f"%l : {c}", f"%b2 : {b}"],
            [f"%b3 : {c}"],
            """%z = arith.constant 0.0 : f32
            %s = arith.addf %a0, %a1 : f32
            %r = arith.maximumf %s, %z : f32
            linalg.yield %r : f32""",
        ),
    ]
    text = function(
        f"x {a} input, w {w} parameter, b {b} parameter, y {c} output",
        kernel(f"{m}, {n}", [f"%x : {a}", f"%w : {w}", f"%b : {b}"], [f"%y : {c}"], "\n".join(stages)),
    )
    x, weights, bias = normal(m, k), normal(k, n), normal(n)
    expected = np.maximum(x.astype(np.float64) @ weights + bias, 0)
    for budget in (numpy_stages.TEMPORARY_BYTES, 0):
        monkeypatch.setattr(numpy_stages, "TEMPORARY_BYTES", budget)
        result = run(text, x=x, w=weights, b=bias)["output/y"]
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("budget", [numpy_stages.TEMPORARY_BYTES, 0])
def test_batched_product_with_broadcast_factors(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_stages, "TEMPORARY_BYTES", budget)
    product = "%s = memref.alloca() {buf.shape_only} : memref<2xi1>\n" + stage(
        [
            "(b, i, j, k, e) -> (b, i, k)",
            "(b, i, j, k, e) -> (j, k)",
            "(b, i, j, k, e) -> (e)",
            "(b, i, j, k, e) -> (i, b, j)",
        ],
        "ppprr",
        ["%b0 : memref<3x4x5xf32>", "%b1 : memref<6x5xf32>", "%s : memref<2xi1>"],
        ["%b2 : memref<4x3x6xf32>"],
        "%p = arith.mulf %a0, %a1 : f32\n%r = arith.addf %a3, %p : f32\nlinalg.yield %r : f32",
    )
    text = function(
        "x memref<3x4x5xf32> input, w memref<6x5xf32> input, y memref<4x3x6xf32> output",
        kernel(
            "3, 4, 6",
            ["%x : memref<3x4x5xf32>", "%w : memref<6x5xf32>"],
            ["%y : memref<4x3x6xf32>"],
            product,
        ),
    )
    x, w = normal(3, 4, 5), normal(6, 5)
    expected = 2 * np.einsum("bik,jk->ibj", x, w)
    np.testing.assert_allclose(run(text, x=x, w=w)["output/y"], expected, rtol=1e-5, atol=1e-6)


def test_convolution_with_padding() -> None:
    body = """
      %i = linalg.index 0 : index
      %k = linalg.index 1 : index
      %p = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)> (%i, %k)
      %n = arith.constant 8 : index
      %z = arith.constant 0.0 : f32
      %in = arith.cmpi ult, %p, %n : index
      %v = scf.if %in -> (f32) {
        %l = memref.load %b0[%p] : memref<8xf32>
        scf.yield %l : f32
      } else {
        scf.yield %z : f32
      }
      %m = arith.mulf %v, %a0 : f32
      %r = arith.addf %a1, %m : f32
      linalg.yield %r : f32"""
    convolving = stage(
        ["(d0, d1) -> (d1)", "(d0, d1) -> (d0)"], "pr", ["%b1 : memref<3xf32>"], ["%b2 : memref<8xf32>"], body
    )
    text = function(
        "x memref<8xf32> input, w memref<3xf32> input, y memref<8xf32> output",
        kernel("8", ["%x : memref<8xf32>", "%w : memref<3xf32>"], ["%y : memref<8xf32>"], convolving),
    )
    x, w = normal(8), normal(3)
    expected = np.convolve(x, w[::-1], "same")
    np.testing.assert_allclose(run(text, x=x, w=w)["output/y"], expected, rtol=1e-5, atol=1e-6)


# --------------------------------------------------------------------------------------------------------- loads


def gather_rows(guarded: bool) -> str:
    load = """
      %j = linalg.index 1 : index
      %row = arith.index_cast %a0 : i32 to index"""
    if guarded:
        load += """
      %n = arith.constant 5 : index
      %z = arith.constant 0.0 : f32
      %in = arith.cmpi ult, %row, %n : index
      %r = scf.if %in -> (f32) {
        %v = memref.load %b1[%row, %j] : memref<5x3xf32>
        scf.yield %v : f32
      } else {
        scf.yield %z : f32
      }"""
    else:
        load += "\n%r = memref.load %b1[%row, %j] : memref<5x3xf32>"
    gathering = stage(
        ["(d0, d1) -> (d0)", "(d0, d1) -> (d0, d1)"],
        "pp",
        ["%b0 : memref<4xi32>"],
        ["%b2 : memref<4x3xf32>"],
        load + "\nlinalg.yield %r : f32",
    )
    return function(
        "i memref<4xi32> input, t memref<5x3xf32> parameter, y memref<4x3xf32> output",
        kernel("4, 3", ["%i : memref<4xi32>", "%t : memref<5x3xf32>"], ["%y : memref<4x3xf32>"], gathering),
    )


def test_guarded_loads() -> None:
    table = normal(5, 3)
    result = run(gather_rows(True), i=np.array([4, -1, 5, 0], np.int32), t=table)["output/y"]
    np.testing.assert_array_equal(result, np.stack([table[4], 0 * table[0], 0 * table[0], table[0]]))


def test_unguarded_loads() -> None:
    table = normal(5, 3)
    result = run(gather_rows(False), i=np.array([4, 1, 1, 0], np.int32), t=table)["output/y"]
    np.testing.assert_array_equal(result, table[[4, 1, 1, 0]])
    with pytest.raises(ExecutionError, match=r"memref\.load: indices 0 to 5 are out of range for axis 0"):
        run(gather_rows(False), i=np.array([4, 1, 5, 0], np.int32), t=table)
