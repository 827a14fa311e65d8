"""Runs `buf` modules with upstream MLIR: `mlir-opt` verifies and lowers them, `mlir-cpu-runner` runs them.

Many functions are combined in one file. Its `main` reads all arguments from standard input into one block of bytes,
calls the functions on views of it, and writes the block to standard output, so that values keep their bits.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from harness import NumpyArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects import buf
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import NAME, Slot, arguments_of, read_slot
from tensorgrad.interpreters.scalars import scalar_dtype
from tensorgrad.passes.buffers.buf_to_upstream import LLVM_PIPELINE, OWN_ROLES, BufToUpstreamPass
from tensorgrad.passes.buffers.buffers_to_tensors import BUFFERIZATION, BuffersToTensorsPass

VERSION = "19"
SECONDS = 300
ALIGNMENT = 64
UPDATED = ("parameter", "state")
INPUTS = (*UPDATED, "input", "scalar", "constant")


def tool(name: str) -> str:
    """The path of a tool of upstream MLIR.

    Raises:
        FileNotFoundError: It is not installed.
    """
    path = shutil.which(f"{name}-{VERSION}")
    if path is None:
        raise FileNotFoundError(f"there is no {name}-{VERSION}; `make test-mlir` installs it or says how")
    return path


@dataclass(frozen=True)
class Place:
    """The location of a named buffer: the argument that contains it, and its byte offset."""

    slot: Slot
    argument: int
    start: int
    shape: tuple[int, ...]
    element: Attribute

    @property
    def key(self) -> str:
        """The executors' name for its contents after the run; parameters and states contain their updates then."""
        return f"{'update' if self.slot.role in UPDATED else self.slot.role}/{self.slot.name}"


def places(function: FuncOp) -> list[Place]:
    """Returns the named buffers of a `buf` function, by the location that the pass will assign."""
    block = function.body.block
    results: list[Place] = []
    slots = zip(block.args, arguments_of(function), strict=True)
    arguments = [(value, slot) for value, slot in slots if slot.role != "constant" or slot.value is None]
    for argument, (value, slot) in enumerate(arguments):
        results.append(_place(value, slot, argument, 0))
    arenas = [op for op in block.ops if isinstance(op, buf.ArenaOp) and op.role.data not in OWN_ROLES]
    for op in block.ops:
        if isinstance(op, buf.ViewOp) and NAME in op.attributes and op.arena.owner in arenas:
            slot = read_slot(op.attributes)
            results.append(
                _place(op.result, slot, len(arguments) + arenas.index(cast(buf.ArenaOp, op.arena.owner)), op.start)
            )
    return results


def _place(value: SSAValue, slot: Slot, argument: int, start: int) -> Place:
    return Place(slot, argument, start, buf.shape_of(value), buf.element_of(value))


def _bytes(place: Place) -> int:
    return int(np.prod(place.shape, dtype=int)) * scalar_dtype(place.element).itemsize


@dataclass
class _Call:
    """A call in a batch: its named buffers, and the locations of its arguments in the block of bytes."""

    places: list[Place]
    offsets: list[int]

    def bounds(self, place: Place) -> tuple[int, int]:
        start = self.offsets[place.argument] + place.start
        return start, start + _bytes(place)


class Batch:
    """Functions of `buf` that upstream MLIR runs together.

    Args:
        on_tensors: Whether upstream is given tensors, to which it assigns buffers itself.
    """

    def __init__(self, on_tensors: bool = False) -> None:
        self.on_tensors = on_tensors
        self._calls: dict[str, _Call] = {}
        self._texts: list[str] = []
        self._main: list[str] = []
        self._inputs: list[tuple[int, NumpyArray]] = []
        self._size = 0

    def add(self, name: str, module: ModuleOp, values: Mapping[str, NumpyArray]) -> None:
        """Adds a call of the module's function, which the pass rewrites in place; `values` are by name."""
        function = find_function(module, None)
        named = places(function)
        function.properties["sym_name"] = StringAttr(f"f{len(self._calls)}")
        BufToUpstreamPass().apply(Context(), module)
        module.verify()
        offsets: list[int] = []
        views: list[str] = []
        types: list[str] = []
        for value in function.body.block.args:
            kind = cast(buf.Buffer, value.type)
            register = f"%v{len(self._main)}_{len(offsets)}"
            views.append(register)
            types.append(str(kind))
            self._main.append(f"%at{register[1:]} = arith.constant {self._size} : index")
            self._main.append(f"{register} = memref.view %data[%at{register[1:]}][] : memref<SIZExi8> to {kind}")
            offsets.append(self._size)
            self._size += -(-buf.buffer_bytes(kind) // ALIGNMENT) * ALIGNMENT
        self._main.append(f"func.call @{function.sym_name.data}({', '.join(views)}) : ({', '.join(types)}) -> ()")
        call = self._calls[name] = _Call(named, offsets)
        for place in named:
            if place.slot.role in INPUTS:
                self._inputs.append((call.bounds(place)[0], _stored(values[place.slot.name], place)))
        if self.on_tensors:
            BuffersToTensorsPass().apply(Context(), module)
            module.verify()
        self._texts += [str(op) for op in module.body.block.ops]

    def functions(self) -> str:
        """Returns the functions, on buffers."""
        text = "\n".join(self._texts)
        if not self.on_tensors:
            return text
        lowered = _call([tool("mlir-opt"), *BUFFERIZATION, "--mlir-print-local-scope"], text.encode())
        return lowered.decode().strip().removeprefix("module {").removesuffix("}")

    def text(self) -> str:
        """Returns the whole file."""
        size = max(self._size, 1)
        main = "\n    ".join(line.replace("SIZE", str(size)) for line in self._main)
        return f"""builtin.module {{
  func.func private @read(i32, i64, i64) -> i64
  func.func private @write(i32, i64, i64) -> i64
  func.func @main() {{
    %data = memref.alloc() {{alignment = {ALIGNMENT} : i64}} : memref<{size}xi8>
    %pointer = memref.extract_aligned_pointer_as_index %data : memref<{size}xi8> -> index
    %address = arith.index_cast %pointer : index to i64
    %bytes = arith.constant {size} : i64
    %input = arith.constant 0 : i32
    %output = arith.constant 1 : i32
    func.call @read(%input, %address, %bytes) : (i32, i64, i64) -> i64
    {main}
    func.call @write(%output, %address, %bytes) : (i32, i64, i64) -> i64
    func.return
  }}
{self.functions()}
}}
"""

    def run(self, folder: Path) -> dict[str, dict[str, NumpyArray]]:
        """Returns the results of every call by its name, each by executors' names. Files are written to `folder`."""
        source, lowered = folder / "buffers.mlir", folder / "llvm.mlir"
        source.write_text(self.text(), encoding="utf-8")
        block = np.full(max(self._size, 1), 0xFF, np.uint8)
        for start, array in self._inputs:
            raw = np.frombuffer(array.tobytes(), np.uint8)
            block[start : start + raw.size] = raw
        _call([tool("mlir-opt"), *LLVM_PIPELINE, str(source), "-o", str(lowered)], b"")
        command = [tool("mlir-cpu-runner"), "-e", "main", "--entry-point-result=void", str(lowered)]
        after = np.frombuffer(_call(command, block.tobytes(), folder / "input"), np.uint8)
        assert after.size == block.size, f"{after.size} bytes came back, not {block.size}"
        return {name: _results(call, after) for name, call in self._calls.items()}


def _stored(array: NumpyArray, place: Place) -> NumpyArray:
    assert array.shape == place.shape, f"{place.slot.name} has shape {array.shape}, not {place.shape}"
    return np.ascontiguousarray(array.astype(scalar_dtype(place.element)))


def _results(call: _Call, after: NumpyArray) -> dict[str, NumpyArray]:
    results: dict[str, NumpyArray] = {}
    for place in call.places:
        low, high = call.bounds(place)
        if place.slot.role not in INPUTS or (place.slot.role in UPDATED and place.key not in results):
            results[place.key] = after[low:high].view(scalar_dtype(place.element)).reshape(place.shape)
    return results


def _call(command: Sequence[str], data: bytes, file: Path | None = None) -> bytes:
    """Returns a command's output for an input file; raises an error with its diagnostics."""
    if file is None:
        done = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=False)
    else:
        file.write_bytes(data)
        with file.open("rb") as opened:
            done = subprocess.run(command, stdin=opened, capture_output=True, timeout=SECONDS, check=False)
    complaint = done.stderr.decode(errors="replace")
    assert done.returncode == 0, f"{Path(command[0]).name} exits with {done.returncode}:\n{complaint[-4000:]}"
    return done.stdout
