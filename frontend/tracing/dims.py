"""Extents of inputs that vary from batch to batch: `tg.dim`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tensorgrad.errors import InputError, ShapeError
from tensorgrad.tracing.checks import is_integer
from tensorgrad.tracing.dtypes import Dim, Spec
from tensorgrad.tracing.location import user_line


def dim(name: str, *, at_most: int, buckets: Sequence[int] | None = None) -> Dim:
    """Declares an extent of inputs that varies from batch to batch.

    It stands for an extent in a shape or a `tg.spec` of `inputs`. A function is compiled for each extent when that
    first occurs; all of its programs have the same parameters and state. With buckets there are as many programs as
    buckets, since other extents are refused: `tg.data.text` pads rows to the lengths that it is given.

    Args:
        name: Inputs with extents of one name have equal ones in each batch.
        at_most: The largest extent, which comes first to be compiled.
        buckets: The only extents, in ascending order up to `at_most`; by default all from 1 on.

    Raises:
        ShapeError: The name is no identifier, an extent is no positive integer, or the buckets are not in order.

    Example:
        >>> length = tg.dim("length", at_most=512, buckets=(128, 256, 512))
        >>> tg.spec((8, length), "i32")
        spec((8, dim('length', at_most=512, buckets=(128, 256, 512))), 'i32')
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ShapeError(f"the name of an extent must be an identifier, got {name!r}")
    if not is_integer(at_most, 1):
        raise ShapeError(f"extent {name!r}: at_most must be a positive integer, got {at_most!r}")
    sizes = () if buckets is None else tuple(buckets)
    if not all(is_integer(size, 1) for size in sizes) or sorted({*sizes}) != [*sizes]:
        raise ShapeError(f"extent {name!r}: buckets must be positive integers in ascending order, got {buckets!r}")
    if buckets is not None and sizes[-1:] != (at_most,):
        raise ShapeError(f"extent {name!r}: the last bucket must be at_most, {at_most}, got {buckets!r}")
    return Dim(name, at_most, sizes)


class Dims:
    """The extents of inputs that vary.

    Args:
        declared: The declared specifications of the inputs.

    Raises:
        InputError: Two extents of one name differ.
    """

    def __init__(self, declared: Mapping[str, Spec]):
        self._declared = declared
        self._named: dict[str, Dim] = {}
        for name, spec in declared.items():
            for extent in spec.shape:
                if not isinstance(extent, Dim):
                    continue
                same = self._named.setdefault(extent.name, extent)
                if same.key != extent.key:
                    raise InputError(f"input {name!r} has the extent {extent!r}, another one {same!r}")

    def __bool__(self) -> bool:
        """Whether any extent varies."""
        return bool(self._named)

    @property
    def most_programs(self) -> int:
        """The number of combinations of extents; 0 if they aren't listed as buckets."""
        return math.prod(len(extent.buckets) for extent in self._named.values())

    def sized(self, shapes: Mapping[str, tuple[int, ...]], what: str) -> Mapping[str, Spec]:
        """Returns the specifications of the inputs of a call.

        If inputs differ from the declared ones in anything else, the declared specifications are returned: their
        program reports it.

        Args:
            shapes: The shapes of the inputs.
            what: The function's name in error messages.

        Raises:
            InputError: Inputs with one extent have different ones, or one is out of its bounds.
        """
        declared = self._declared
        if shapes.keys() != declared.keys() or all(shapes[name] == spec.shape for name, spec in declared.items()):
            return declared
        sizes: dict[str, tuple[str, int]] = {}
        for name, spec in declared.items():
            if len(shapes[name]) != len(spec.shape):
                return declared
            for extent, size in zip(spec.shape, shapes[name], strict=True):
                if isinstance(extent, Dim):
                    first, other = sizes.setdefault(extent.name, (name, size))
                    if other != size:
                        where = f"{user_line()}: {what}: extent {extent.name!r}"
                        raise InputError(f"{where} is {other} in input {first!r} and {size} in {name!r}")
                elif size != extent:
                    return declared
        for key, (name, size) in sizes.items():
            _check_bounds(self._named[key], size, f"{user_line()}: {what}: extent {key!r} is {size} in input {name!r}")
        return {name: Spec(shapes[name], spec.dtype) for name, spec in declared.items()}


def _check_bounds(extent: Dim, size: int, where: str) -> None:
    """Checks that an extent is one of those that were declared."""
    if extent.buckets and size not in extent.buckets:
        raise InputError(f"{where}; it is one of {', '.join(map(str, extent.buckets))}")
    if not 1 <= size <= extent:
        raise InputError(f"{where}; it is from 1 to {int(extent)}")
