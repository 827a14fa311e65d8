"""Builds `buf` functions as text for tests, and runs them with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.affine import Affine
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.linalg import Linalg
from xdsl.dialects.math import Math
from xdsl.dialects.memref import MemRef
from xdsl.dialects.scf import Scf
from xdsl.parser import Parser

from tensorgrad.dialects.buf_control import Buf
from tensorgrad.interpreters.buffers import BufferExecutor


def parse(text: str) -> ModuleOp:
    """Returns a verified module."""
    context = Context()
    for dialect in (Builtin, Func, Arith, Math, Linalg, MemRef, Scf, Affine, Buf):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def run(text: str, **values: Any) -> dict[str, Any]:
    """Returns the results of the only function in `text`."""
    return BufferExecutor(parse(text)).run(values)


def function(arguments: str, body: str) -> str:
    """Returns a function with `name: type role` arguments, separated by commas."""
    parts = []
    for argument in arguments.split(", "):
        name, kind, role = argument.split(" ")
        parts.append(f'%{name} : {kind} {{tg.name = "{name}", tg.role = "{role}"}}')
    return f"func.func @f({', '.join(parts)}) {{\n{body}\nfunc.return\n}}"


def stage(maps: list[str], iterators: str, ins: list[str], outs: list[str], body: str) -> str:
    """Returns a stage over `value : type` operands; the body's arguments are %a0, %a1, …, of the element types."""
    kinds = {"p": '"parallel"', "r": '"reduction"'}
    names = [operand.split(" : ")[0] for operand in (*ins, *outs)]
    types = [operand.split(" : ")[1] for operand in (*ins, *outs)]
    elements = [kind[len("memref<") : -1].split("x")[-1] for kind in types]
    groups = []
    for keyword, start, end in (("ins", 0, len(ins)), ("outs", len(ins), len(names))):
        if start < end:
            groups.append(f"{keyword}({', '.join(names[start:end])} : {', '.join(types[start:end])})")
    arguments = ", ".join(f"%a{i} : {element}" for i, element in enumerate(elements))
    return (
        f"linalg.generic {{indexing_maps = [{', '.join(f'affine_map<{m}>' for m in maps)}], "
        f"iterator_types = [{', '.join(kinds[i] for i in iterators)}]}} {' '.join(groups)} {{\n"
        f"^bb0({arguments}):\n{body}\n}}"
    )


def kernel(grid: str, ins: list[str], outs: list[str], stages: str) -> str:
    """Returns a kernel over `value : type` operands; its block arguments are %b0, %b1, …"""
    groups = []
    for keyword, operands in (("ins", ins), ("outs", outs)):
        if operands:
            names, types = zip(*(operand.split(" : ") for operand in operands), strict=True)
            groups.append(f"{keyword}({', '.join(names)} : {', '.join(types)})")
    arguments = ", ".join(f"%b{i} : {x.split(' : ')[1]}" for i, x in enumerate((*ins, *outs)))
    return f"buf.kernel grid = [{grid}] {' '.join(groups)} {{\n^bb0({arguments}):\n{stages}\n}}"


def pointwise(kind: str, body: str, ins: int, shape: str = "4", outs: str | None = None) -> str:
    """Returns a function from `ins` inputs x0, x1, … of one type to `y`, by a body with identity maps."""
    outs = outs or kind
    dims = ", ".join(f"d{i}" for i in range(shape.count("x") + 1))
    identity = f"({dims}) -> ({dims})"
    source, target = f"memref<{shape}x{kind}>", f"memref<{shape}x{outs}>"
    arguments = ", ".join([f"x{i} {source} input" for i in range(ins)] + [f"y {target} output"])
    body_stage = stage(
        [identity] * (ins + 1),
        "p" * (shape.count("x") + 1),
        [f"%b{i} : {source}" for i in range(ins)],
        [f"%b{ins} : {target}"],
        body,
    )
    grid = shape.replace("x", ", ")
    return function(arguments, kernel(grid, [f"%x{i} : {source}" for i in range(ins)], [f"%y : {target}"], body_stage))


ADD = "%r = arith.addf %a0, %a1 : f32\nlinalg.yield %r : f32"


def generator() -> np.random.Generator:
    """Returns a random generator with a fixed seed."""
    return np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    """Returns normal float32 numbers, the same each time."""
    return generator().standard_normal(shape).astype(np.float32)
