"""`from_stablehlo`: a function in StableHLO as a function here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xdsl.dialects.func import FuncOp

from tensorgrad.dialects.signature import arguments_of
from tensorgrad.dialects.tg.base import numpy_dtype
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.errors import InputError, ShapeError
from tensorgrad.importers.parts import as_input
from tensorgrad.importers.stablehlo.evaluation import applied
from tensorgrad.importers.stablehlo.reading import read
from tensorgrad.runtime.texts import read_text
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Tensor


class StablehloFunction:
    """A function in StableHLO as a function here: made by `tg.from_stablehlo`.

    Call it with a tensor or array for each argument, inside a trace or outside.

    Attributes:
        names: The names of the arguments.

    Example:
        >>> text = '''
        ... func.func @double(%x: tensor<2xf32>) -> tensor<2xf32> {
        ...   %0 = stablehlo.add %x, %x : tensor<2xf32>
        ...   return %0 : tensor<2xf32>
        ... }'''
        >>> double = tg.from_stablehlo(text)
        >>> np.asarray(double([1.0, 2.0])).tolist()
        [2.0, 4.0]
    """

    def __init__(self, function: FuncOp):
        self._function = function
        self.names = tuple(slot.name for slot in arguments_of(function))

    def __call__(self, *arguments: Any) -> Any:
        """Applies the function.

        Args:
            *arguments: A tensor or array for each argument, of its shape and dtype.

        Returns:
            The function's result; a tuple if it has several.

        Raises:
            InputError: There are more or fewer arguments, or a tensor has another dtype.
            ShapeError: An argument has another shape.
        """
        kinds = self._function.body.block.args
        if len(arguments) != len(kinds):
            raise InputError(f"{user_line()}: the function takes {len(kinds)} arguments, got {len(arguments)}")
        results = applied(
            self._function.body.block, [self._input(place, value) for place, value in enumerate(arguments)]
        )
        return results[0] if len(results) == 1 else tuple(results)

    def _input(self, place: int, value: Any) -> Tensor:
        kind = type_of(self._function.body.block.args[place])
        where = f"{user_line()}: argument {place} ({self.names[place]})"
        tensor = as_input(value, numpy_dtype(kind), where)
        if tensor.shape != kind.get_shape():
            raise ShapeError(f"{where} has shape {tensor.shape}, expected {kind.get_shape()}")
        return tensor


def from_stablehlo(source: str | os.PathLike[str]) -> StablehloFunction:
    """Returns a function in StableHLO, such as `jax.export` writes, as a function here.

    It works like one that is written here: it can be called inside and outside of traces, and differentiated. Its ops
    have their author's lines if the text has them. Integers of 64 bits become those of 32. A loop of a known number of
    iterations, such as of `lax.scan` or `lax.fori_loop`, becomes `tg.scan`.

    Args:
        source: The text, or the path of a file, whose name ends in `.mlir`. It has one public function.

    Returns:
        The function.

    Raises:
        OptionError: The text is malformed, or has ops without a counterpart here: all are listed, with their lines.
        OSError: The file can't be read.

    Example:
        >>> square = tg.from_stablehlo('''
        ... func.func @square(%x: tensor<f32>) -> tensor<f32> {
        ...   %0 = stablehlo.multiply %x, %x : tensor<f32>
        ...   return %0 : tensor<f32>
        ... }''')
        >>> float(tg.grad(square)(3.0))
        6.0
    """
    is_path = not isinstance(source, str) or (source.endswith(".mlir") and "\n" not in source)
    text = read_text(Path(source), InputError) if is_path else str(source)
    return StablehloFunction(read(text, str(source) if is_path else "<text>", "from_stablehlo"))
