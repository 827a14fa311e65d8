"""Which results of a `tg` function always contain a NaN, from the IR alone."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.ir import SSAValue
from xdsl.parser import Parser

from tensorgrad.checks.reach import is_unconditional, results_with
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.tg import Tg

TEXT = """
func.func @f(%x: tensor<4xf32>, %p: tensor<4xi1>, %many: tensor<8x4xf32>) -> (RESULTS) {
OPS
  func.return RETURNED : RESULTS
}
"""


def reached(ops: str, *returned: str) -> tuple[SSAValue, frozenset[int]]:
    """Returns the value %nan of a function, and the indices of the results that contain a NaN if it does."""
    ops = ops if "%nan = " in ops else f"  %nan = tg.log %x : tensor<4xf32>\n{ops}"
    results = ", ".join(entry.partition(" ")[2] for entry in returned)
    names = ", ".join(entry.partition(" ")[0] for entry in returned)
    text = TEXT.replace("OPS", ops).replace("RETURNED", names).replace("RESULTS", results)
    context = Context()
    for dialect in (Builtin, Func, Tg):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    function = find_function(module, None)
    (nan,) = (result for op in function.walk() for result in op.results if result.name_hint == "nan")
    return nan, results_with(nan)


@pytest.mark.parametrize(
    ("op", "reaches"),
    [
        ("tg.add %nan, %x : tensor<4xf32>, tensor<4xf32>", True),
        ("tg.maximum %x, %nan : tensor<4xf32>, tensor<4xf32>", True),
        ("tg.exp %nan : tensor<4xf32>", True),
        ("tg.transpose %nan permutation = [0] : tensor<4xf32>", True),
        ("tg.pow %nan, %x : tensor<4xf32>, tensor<4xf32>", False),  # NaN ** 0 is 1
        ("tg.select %p, %nan, %x : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>", False),
        ("tg.slice %nan start = [0] stop = [4] step = [1] : tensor<4xf32>", False),
    ],
)
def test_ops(op: str, reaches: bool) -> None:
    _, places = reached(f"  %y = {op}", "%x tensor<4xf32>", "%y tensor<4xf32>")
    assert places == ({1} if reaches else set())


def test_all_ways_are_followed() -> None:
    ops = """
  %a = tg.exp %nan : tensor<4xf32>
  %sum = tg.sum %a axes = [0] : tensor<4xf32>
  %b = tg.select %p, %a, %x : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
    """
    _, places = reached(ops, "%a tensor<4xf32>", "%b tensor<4xf32>", "%sum tensor<f32>", "%nan tensor<4xf32>")
    assert places == {0, 2, 3}


def test_a_nan_in_a_row_is_in_its_own_slices() -> None:
    ops = """
  %row = tg.pack %x, %nan offsets = [0, 64] size = 128 : tensor<4xf32>, tensor<4xf32>
  %twice = tg.add %row, %row : tensor<128xf32>, tensor<128xf32>
  %before = tg.slice %twice start = [0] stop = [4] step = [1] : tensor<128xf32>
  %all = tg.slice %twice start = [64] stop = [68] step = [1] : tensor<128xf32>
  %part = tg.slice %twice start = [65] stop = [68] step = [1] : tensor<128xf32>
  %gaps = tg.slice %twice start = [64] stop = [68] step = [2] : tensor<128xf32>
  %more = tg.slice %row start = [60] stop = [70] step = [1] : tensor<128xf32>
  %again = tg.slice %more start = [4] stop = [8] step = [1] : tensor<10xf32>
  %other = tg.slice %more start = [0] stop = [4] step = [1] : tensor<10xf32>
    """
    small = ["%before", "%all", "%again", "%other"]
    _, places = reached(ops, *(f"{name} tensor<4xf32>" for name in small), "%part tensor<3xf32>", "%gaps tensor<2xf32>")
    assert places == {1, 2}


CALL = """
  %c, %d = tg.call @g(%x, %p) : (tensor<4xf32>, tensor<4xi1>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%y: tensor<4xf32>, %q: tensor<4xi1>):
    %nan = tg.sin %y : tensor<4xf32>
    %e = tg.select %q, %nan, %y : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
    tg.return %e, %nan : tensor<4xf32>, tensor<4xf32>
  }
"""

LOOP = """
  %last, %all = tg.scan () carry (%x) over (%many) length = 8
    : (tensor<4xf32>, tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  ^bb0(%h: tensor<4xf32>, %one: tensor<4xf32>):
    %nan = tg.mul %h, %one : tensor<4xf32>, tensor<4xf32>
    tg.return %nan, %nan : tensor<4xf32>, tensor<4xf32>
  }
"""


def test_bodies_of_calls_are_followed_and_loops_are_not() -> None:
    value, places = reached(CALL, "%c tensor<4xf32>", "%d tensor<4xf32>")
    assert places == {1} and is_unconditional(value)
    value, places = reached(LOOP, "%last tensor<4xf32>", "%all tensor<8x4xf32>")
    assert not places and not is_unconditional(value)


def test_an_operand_of_a_call_is_followed_into_it() -> None:
    value, places = reached(
        CALL.replace("%nan", "%s").replace("(%x,", "(%nan,", 1), "%c tensor<4xf32>", "%d tensor<4xf32>"
    )
    assert places == {1} and is_unconditional(value)
