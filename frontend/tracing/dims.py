"""Extents of inputs that vary from batch to batch: `tg.dim`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from tensorgrad.errors import InputError, ShapeError
from tensorgrad.runtime.conversion import to_numpy
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.dtypes import SHORT, Dim, Spec, is_float
from tensorgrad.tracing.location import user_line


def dim(
    name: str,
    *,
    at_most: int,
    buckets: Sequence[int] | None = None,
    padding: float | Mapping[str, float] | None = None,
) -> Dim:
    """Declares an extent of inputs that varies from batch to batch.

    It stands for an extent in a shape or a `tg.spec` of `inputs`. A function is compiled for each extent when that
    first occurs; all of its programs have the same parameters and state. With buckets there are as many programs as
    buckets. Inputs of other extents are padded to the next one, on the host, if `padding` says by what, and refused
    otherwise. Then a `PaddingWarning` tells of losses, and results without the extent, that depend on what is padded.

    Args:
        name: Inputs with extents of one name have equal ones in each batch.
        at_most: The largest extent, which comes first to be compiled.
        buckets: The only extents, in ascending order up to `at_most`; by default all from 1 on.
        padding: What inputs are padded by at the end of this axis: a number, or numbers by the names of inputs
            (`batch.labels` in a tree), and 0 for all others.

    Raises:
        ShapeError: The name is no identifier, an extent is no positive integer, the buckets are not in order, or there
            is a padding without buckets or of something else than numbers.

    Example:
        >>> length = tg.dim("length", at_most=512, buckets=(128, 256, 512))
        >>> tg.spec((8, length), "i32")
        spec((8, dim('length', at_most=512, buckets=(128, 256, 512))), 'i32')
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ShapeError(f"the name of an extent must be an identifier, got {name!r}")
    at_most = checked_extent(at_most, f"extent {name!r}: at_most", 1)
    sizes = tuple(checked_extent(size, f"extent {name!r}: a bucket", 1) for size in buckets or ())
    if sorted({*sizes}) != [*sizes]:
        raise ShapeError(f"extent {name!r}: buckets must be positive integers in ascending order, got {buckets!r}")
    if buckets is not None and sizes[-1:] != (at_most,):
        raise ShapeError(f"extent {name!r}: the last bucket must be at_most, {at_most}, got {buckets!r}")
    if padding is None:
        return Dim(name, at_most, sizes)
    if buckets is None:
        raise ShapeError(f"extent {name!r}: padding is up to the next bucket, but there are no buckets")
    values = {**padding, None: 0} if isinstance(padding, Mapping) else {None: padding}
    for value in values.values():
        if not isinstance(value, Real):
            raise ShapeError(f"extent {name!r}: padding must be a number or numbers by input, got {padding!r}")
    return Dim(name, at_most, sizes, tuple(sorted(values.items(), key=lambda item: item[0] or "")))


class Dims:
    """The extents of inputs that vary.

    Args:
        declared: The declared specifications of the inputs.

    Raises:
        InputError: Two extents of one name differ, or an input can't be padded as they say.
    """

    def __init__(self, declared: Mapping[str, Spec]):
        self._declared = declared
        self._named: dict[str, Dim] = {}
        for name, spec in declared.items():
            for extent in spec.shape:
                if isinstance(extent, Dim):
                    same = self._named.setdefault(extent.name, extent)
                    if same.key != extent.key:
                        raise InputError(f"input {name!r} has the extent {extent!r}, another one {same!r}")
            _check_padding(name, spec)

    def __bool__(self) -> bool:
        """Whether any extent varies."""
        return bool(self._named)

    @property
    def most_programs(self) -> int:
        """The number of combinations of extents; 0 if they aren't listed as buckets."""
        return math.prod(len(extent.buckets) for extent in self._named.values())

    def fitted(self, inputs: dict[str, Any], what: str) -> tuple[dict[str, Any], Mapping[str, Spec]]:
        """Returns the inputs of a call, padded to the next buckets, and their specifications.

        If inputs differ from the declared ones in anything but these extents, they are returned as they are, with the
        declared specifications: their program reports it.

        Args:
            inputs: The inputs.
            what: The function's name in error messages.

        Raises:
            InputError: Inputs with one extent have different ones, or one is out of its bounds.
        """
        shapes = {name: shape_of(name, value) for name, value in inputs.items()}
        sizes = self._sizes(shapes, what)
        if not sizes:
            return inputs, self._declared
        self._check_bounds(sizes, what)
        targets = {key: self._named[key].target(size) for key, (_, size) in sizes.items()}
        fitted, specs = dict(inputs), dict[str, Spec]()
        for name, spec in self._declared.items():
            shape = tuple(targets[extent.name] if isinstance(extent, Dim) else extent for extent in spec.shape)
            specs[name] = Spec(shape, spec.dtype)
            if shape != shapes[name]:
                beyond = [(0, target - size) for target, size in zip(shape, shapes[name], strict=True)]
                (value,) = {*paddings(name, spec).values()}
                fitted[name] = np.pad(to_numpy(inputs[name], f"input {name!r}"), beyond, constant_values=value)
        return fitted, self._declared if specs == self._declared else specs

    def _check_bounds(self, sizes: Mapping[str, tuple[str, int]], what: str) -> None:
        """Checks that extents are among those that were declared, or can be padded up to one of them."""
        for key, (name, size) in sizes.items():
            extent, where = self._named[key], f"{user_line()}: {what}: extent {key!r} is {size} in input {name!r}"
            if extent.buckets and not extent.padding and size not in extent.buckets:
                raise InputError(f"{where}; it is one of {', '.join(map(str, extent.buckets))}")
            if not 1 <= size <= extent:
                raise InputError(f"{where}; it is from 1 to {int(extent)}")

    def _sizes(self, shapes: Mapping[str, tuple[int, ...]], what: str) -> Mapping[str, tuple[str, int]]:
        """Returns an input and its size for each extent; nothing if shapes differ from the declared ones otherwise."""
        declared = self._declared
        if shapes.keys() != declared.keys():
            return {}
        sizes: dict[str, tuple[str, int]] = {}
        for name, spec in declared.items():
            if len(shapes[name]) != len(spec.shape):
                return {}
            for extent, size in zip(spec.shape, shapes[name], strict=True):
                if isinstance(extent, Dim):
                    first, other = sizes.setdefault(extent.name, (name, size))
                    if other != size:
                        where = f"{user_line()}: {what}: extent {extent.name!r}"
                        raise InputError(f"{where} is {other} in input {first!r} and {size} in {name!r}")
                elif size != extent:
                    return {}
        return sizes


def check_paddings(declared: Mapping[str, Spec], in_group: bool) -> None:
    """Checks that inputs can be padded as extents say, and that all exist that their paddings name.

    Args:
        declared: The declared specifications of the inputs.
        in_group: Whether the program runs in a group of processes, which takes inputs of the declared extents alone.

    Raises:
        InputError: One doesn't; or as `Dims`.
    """
    Dims(declared)
    if in_group and any(paddings(name, spec) for name, spec in declared.items()):
        raise InputError("inputs aren't padded in a group of processes: pad them, and declare extents without padding")
    for extent in (extent for spec in declared.values() for extent in spec.shape if isinstance(extent, Dim)):
        for name, _ in extent.padding:
            if name is not None and name not in declared:
                known = ", ".join(declared)
                raise InputError(f"extent {extent.name!r} has a padding for {name!r}; the inputs are {known}")


def shape_of(name: str, value: Any) -> tuple[int, ...]:
    """Returns the shape of an input of a call."""
    shape = getattr(value, "shape", None)
    return to_numpy(value, f"input {name!r}").shape if shape is None else tuple(shape)


def paddings(name: str, spec: Spec) -> dict[int, float]:
    """Returns the axes along which an input is padded, and by what."""
    values = {axis: extent.padding_of(name) for axis, extent in enumerate(spec.shape) if isinstance(extent, Dim)}
    return {axis: value for axis, value in values.items() if value is not None}


def _check_padding(name: str, spec: Spec) -> None:
    """Checks that an input is padded by one number, which its dtype can represent."""
    values = {*paddings(name, spec).values()}
    if len(values) > 1:
        raise InputError(f"input {name!r} is padded by {' and '.join(map(str, sorted(values)))} along its axes")
    for value in values:
        try:
            is_exact = is_float(spec.dtype) or bool(np.asarray(value).astype(spec.dtype) == value)
        except OverflowError:
            is_exact = False
        if not is_exact:
            raise InputError(f"input {name!r} is padded by {value}, which is no {SHORT[spec.dtype]}")
