"""Kernels of tiles interpreted with NumPy: parts, loops, order, and what is out of bounds."""

from __future__ import annotations

import numpy as np
import pytest
from buffer_text import function, normal, run

from tensorgrad.runtime.errors import ExecutionError

ADD = "%r = arith.addf %held, %a : f32\nlinalg.yield %r : f32"
ROW = "memref<3xf32, strided<[1], offset: ?>>"


def tiled(body: str, x: str = "memref<4x3xf32>", y: str = "memref<4xf32>") -> str:
    """Returns a function of one kernel of tiles, from %0 to %1."""
    kernel = f"buf.tiled ins(%x : {x}) outs(%y : {y}) {{\n^bb0(%0: {x}, %1: {y}):\n{body}\n}}"
    return function(f"x {x} input, y {y} output", kernel)


def row_sum(start: str, body: str = ADD) -> str:
    """Returns loops that sum each row in a register, which starts with a value."""
    return f"""
    buf.forall (%i) in (4) mapping (task) {{
      %sum = memref.alloca() : memref<f32, #buf.space<register>>
      {start}
      %part = memref.subview %0[%i, 0] [1, 3] [1, 1] : memref<4x3xf32> to {ROW}
      linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>],
                       iterator_types = ["reduction"]}}
                     ins(%part : {ROW}) outs(%sum : memref<f32, #buf.space<register>>) {{
      ^bb0(%a: f32, %held: f32):
        {body}
      }}
      %out = memref.subview %1[%i] [1] [1] : memref<4xf32> to memref<f32, strided<[], offset: ?>>
      "memref.copy"(%sum, %out)
          : (memref<f32, #buf.space<register>>, memref<f32, strided<[], offset: ?>>) -> ()
    }}"""


FILL = """%one = arith.constant 1.0 : f32
linalg.fill ins(%one : f32) outs(%sum : memref<f32, #buf.space<register>>)"""


def test_a_stage_folds_into_the_present_value() -> None:
    x = normal(4, 3)
    expected = ((1 + x[:, 0]) + x[:, 1]) + x[:, 2]
    np.testing.assert_array_equal(run(tiled(row_sum(FILL)), x=x)["output/y"], expected)


def test_local_memory_starts_undefined() -> None:
    assert np.isnan(run(tiled(row_sum("")), x=normal(4, 3))["output/y"]).all()


def test_terms_are_folded_in_the_order_of_loops() -> None:
    x = np.tile(np.array([1e8, -1e8, 1], np.float32), (4, 1))
    np.testing.assert_array_equal(run(tiled(row_sum(FILL)), x=x)["output/y"], np.ones(4))
    np.testing.assert_array_equal(run(tiled(row_sum(FILL)), x=x[:, ::-1])["output/y"], np.zeros(4))


def test_a_body_takes_indices_from_around_it() -> None:
    body = "%n = arith.index_cast %i : index to i32\n%f = arith.sitofp %n : i32 to f32\nlinalg.yield %f : f32"
    stage = f"""
    buf.forall (%i) in (4) {{
      %out = memref.subview %1[%i] [1] [1] : memref<4xf32> to memref<f32, strided<[], offset: ?>>
      linalg.generic {{indexing_maps = [affine_map<() -> ()>], iterator_types = []}}
                     outs(%out : memref<f32, strided<[], offset: ?>>) {{
      ^bb0(%held: f32):
        {body}
      }}
    }}"""
    np.testing.assert_array_equal(run(tiled(stage), x=normal(4, 3))["output/y"], np.arange(4))


def test_loops_in_order_and_extents_at_run_time() -> None:
    """Row `i` copies its first `i` elements, one after another, over the same element."""
    body = """
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    buf.forall (%i) in (4) {
      %out = memref.subview %1[%i] [1] [1] : memref<4xf32> to memref<f32, strided<[], offset: ?>>
      %n = affine.min affine_map<(d0) -> (d0, 3)> (%i)
      scf.for %j = %c0 to %n step %c1 {
        %in = memref.subview %0[%i, %j] [1, 1] [1, 1] : memref<4x3xf32> to memref<f32, strided<[], offset: ?>>
        "memref.copy"(%in, %out) : (memref<f32, strided<[], offset: ?>>, memref<f32, strided<[], offset: ?>>) -> ()
      }
    }"""
    x = normal(4, 3)
    result = run(tiled(body), x=x)["output/y"]
    assert np.isnan(result[0])
    np.testing.assert_array_equal(result[1:], [x[1, 0], x[2, 1], x[3, 2]])


def test_a_part_out_of_bounds_is_an_error() -> None:
    body = """
    buf.forall (%i) in (5) {
      %in = memref.subview %0[%i, 0] [1, 1] [1, 1] : memref<4x3xf32> to memref<f32, strided<[], offset: ?>>
      %out = memref.subview %1[0] [1] [1] : memref<4xf32> to memref<f32, strided<[]>>
      "memref.copy"(%in, %out) : (memref<f32, strided<[], offset: ?>>, memref<f32, strided<[]>>) -> ()
    }"""
    with pytest.raises(ExecutionError, match=r"memref.subview: indices 4 to 4 are out of range for axis 0 of \[4, 3\]"):
        run(tiled(body), x=normal(4, 3))
