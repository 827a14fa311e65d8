"""The walk that replaces xDSL's verifier in tests: it finds invalid IR anywhere, and the errors are xDSL's."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, cf, func, llvm, scf, test
from xdsl.dialects.builtin import Builtin, IntegerAttr, ModuleOp, StringAttr, f32, i1, i64
from xdsl.ir import Block, Operation, OpResult, SSAValues
from xdsl.irdl import OpDef
from xdsl.parser import Parser

from tensorgrad.dialects.tg import Tg
from tensorgrad.dialects.tg.base import tensor

TEXT = """
builtin.module {
  func.func @branches(%c: i1, %x: i64, %s: i32) -> i64 {
    %z = llvm.sext %s : i32 to i64
    %y = arith.addi %x, %x : i64
    cf.cond_br %c, ^one(%y : i64), ^two
  ^one(%a: i64):
    cf.br ^two
  ^two:
    func.return %y : i64
  }
  func.func @loops(%n: index, %x: f32) -> f32 {
    %r = scf.for %i = %n to %n step %n iter_args(%s = %x) -> (f32) {
      %t = scf.for %j = %n to %n step %n iter_args(%u = %s) -> (f32) {
        %v = arith.addf %u, %x : f32
        scf.yield %v : f32
      }
      scf.yield %t : f32
    }
    func.return %r : f32
  }
  func.func @tensors(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = tg.exp %x : tensor<4xf32>
    func.return %0 : tensor<4xf32>
  }
  builtin.module @inner {
    func.func private @declared(i64)
  }
}
"""


def parsed() -> ModuleOp:
    context = Context()
    for dialect in (Builtin, arith.Arith, cf.Cf, func.Func, llvm.LLVM, scf.Scf, Tg):
        context.load_dialect(dialect)
    return Parser(context, TEXT).parse_module()


def find(module: ModuleOp, name: str) -> Operation:
    """The last op of a name in the module."""
    return [op for op in module.walk() if op.name == name][-1]


def block_of(op: Operation) -> Block:
    assert op.parent is not None
    return op.parent


def uses_an_erased_value(module: ModuleOp) -> None:
    value = find(module, "arith.addf").operands[0]
    other = arith.ConstantOp(IntegerAttr(1, i64))
    find(module, "arith.addf").operands[0] = other.result
    other.result.erase(safe_erase=False)
    assert value is not other.result


def branches_from_the_middle(module: ModuleOp) -> None:
    branch = find(module, "cf.br")
    block_of(branch).insert_op_after(cf.BranchOp(branch.successors[0]), branch)


def branches_out_of_its_region(module: ModuleOp) -> None:
    find(module, "cf.br").successors[0] = block_of(find(module, "func.return"))


def ends_one_block_without_terminator(module: ModuleOp) -> None:
    find(module, "scf.yield").detach()


def ends_one_of_blocks_without_terminator(module: ModuleOp) -> None:
    find(module, "cf.br").detach()
    block = block_of(find(module, "cf.cond_br"))
    assert block.next_block is not None
    block.next_block.add_op(test.TestOp())


def names_another_parent(module: ModuleOp) -> None:
    find(module, "tg.exp").parent = block_of(find(module, "cf.br"))


def names_another_parent_of_a_block(module: ModuleOp) -> None:
    inner = find(module, "builtin.module")
    assert isinstance(inner, ModuleOp)
    inner.body.block.parent = module.body


def has_an_empty_block(module: ModuleOp) -> None:
    block = block_of(find(module, "scf.yield"))
    for op in reversed([*block.ops]):
        op.detach()
        op.drop_all_references()


def has_another_operand_type(module: ModuleOp) -> None:
    find(module, "arith.addf").operands[0] = find(module, "scf.for").operands[0]


def has_another_type_by_a_change_of_a_value(module: ModuleOp) -> None:
    find(module, "arith.addf").results[0]._type = i1


def has_more_operands(module: ModuleOp) -> None:
    op = find(module, "arith.addf")
    op.operands = [*op.operands, op.operands[0]]


def has_more_results(module: ModuleOp) -> None:
    find(module, "scf.yield").results = SSAValues((OpResult(f32, find(module, "scf.yield"), 0),))


def lacks_a_property(module: ModuleOp) -> None:
    del find(module, "func.func").properties["sym_name"]


def has_an_unknown_property(module: ModuleOp) -> None:
    find(module, "tg.exp").properties["unknown"] = StringAttr("x")


def has_a_property_of_another_kind(module: ModuleOp) -> None:
    find(module, "func.func").properties["sym_name"] = i1


def has_more_blocks(module: ModuleOp) -> None:
    find(module, "scf.for").regions[0].add_block(Block())


def is_in_another_parent(module: ModuleOp) -> None:
    module.body.block.add_op(func.ReturnOp())


def terminates_in_the_middle(module: ModuleOp) -> None:
    last = find(module, "func.return")
    block_of(last).insert_op_before(func.ReturnOp(*last.operands), last)


def uses_what_is_above_its_function(module: ModuleOp) -> None:
    one = arith.ConstantOp(IntegerAttr(1, i64))
    assert module.body.block.first_op is not None
    module.body.block.insert_op_before(one, module.body.block.first_op)
    find(module, "arith.addi").operands[1] = one.result


def uses_deep_down_what_is_above_its_function(module: ModuleOp) -> None:
    other = find(module, "tg.exp")
    find(module, "arith.addf").operands[0] = block_of(other).args[0]
    block_of(other).args[0]._type = f32


def uses_a_result_of_its_function(module: ModuleOp) -> None:
    function = block_of(find(module, "tg.exp")).parent_op()
    assert function is not None
    find(module, "arith.addf").operands[0] = OpResult(f32, function, 0)


def says_a_symbol_twice(module: ModuleOp) -> None:
    module.body.block.add_op(func.FuncOp.external("loops", [], []))


def is_of_another_type_than_its_operand(module: ModuleOp) -> None:
    find(module, "tg.exp").results[0]._type = tensor((5,), f32)


def extends_to_fewer_bits(module: ModuleOp) -> None:
    """Which xDSL checks in a `verify` of the op's own class."""
    find(module, "llvm.sext").results[0]._type = i1


def returns_another_type(module: ModuleOp) -> None:
    find(module, "func.return").operands[0]._type = tensor((5,), f32)
    find(module, "tg.exp").operands[0]._type = tensor((5,), f32)


INVALID: list[Callable[[ModuleOp], None]] = [
    uses_an_erased_value,
    branches_from_the_middle,
    branches_out_of_its_region,
    ends_one_block_without_terminator,
    ends_one_of_blocks_without_terminator,
    names_another_parent,
    names_another_parent_of_a_block,
    has_an_empty_block,
    has_another_operand_type,
    has_another_type_by_a_change_of_a_value,
    has_more_operands,
    has_more_results,
    lacks_a_property,
    has_an_unknown_property,
    has_a_property_of_another_kind,
    has_more_blocks,
    is_in_another_parent,
    terminates_in_the_middle,
    uses_what_is_above_its_function,
    uses_deep_down_what_is_above_its_function,
    uses_a_result_of_its_function,
    says_a_symbol_twice,
    is_of_another_type_than_its_operand,
    extends_to_fewer_bits,
    returns_another_type,
]


def said(module: ModuleOp) -> tuple[type[Exception], str]:
    """What the verifier says, which may be that an op doesn't print."""
    with pytest.raises(Exception) as raised:
        module.verify()
    return raised.type, str(raised.value)


@pytest.mark.parametrize("plant", INVALID)
def test_the_same_is_said_as_by_xdsl(plant: Callable[[ModuleOp], None], monkeypatch: pytest.MonkeyPatch) -> None:
    module = parsed()
    module.verify()
    plant(module)
    found = [said(module), said(module)]
    with monkeypatch.context() as patch:
        patch.setattr(Operation, "verify", inspect.unwrap(Operation.verify))
        patch.setattr(OpDef, "verify", inspect.unwrap(OpDef.verify))
        expected = said(module)
    assert found == [expected, expected]


def test_an_op_alone_is_found_out() -> None:
    block = Block()
    with pytest.raises(Exception, match="does not belong to a block or a region"):
        cf.BranchOp(block).verify()


def test_what_is_valid_is_not_verified_by_xdsl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the walk would save nothing."""
    module = parsed()
    module.verify()
    monkeypatch.setattr(Block, "verify", lambda self: pytest.fail("xDSL's verifier walks through a block"))
    module.verify()
    module.clone().verify()
