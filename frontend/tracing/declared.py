"""Declarations of a model that a trace binds to values: parameters and buffers, as seen by the tracer."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

from tensorgrad.errors import ParameterError, UnknownNameError
from tensorgrad.surface.foreign import NAMES, name_hint
from tensorgrad.surface.methods import Methods
from tensorgrad.tracing.dtypes import DType
from tensorgrad.tracing.size import Size


class Declared:
    """A shape and a dtype without values. Computing with it raises an error that explains this.

    Attributes:
        shape: The extents.
        dtype: The numpy dtype of the elements.
        kind: Its kind in error messages.
    """

    __slots__ = ()
    __array_ufunc__: ClassVar[None] = None  # numpy's operators defer to those of tensors, and to these
    tree_leaf: ClassVar[bool] = True
    kind: ClassVar[str]

    shape: tuple[int, ...]
    dtype: DType

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements; called, as PyTorch's `size`, the shape or the extent of an axis."""
        return Size(self.shape)

    def numel(self) -> int:
        """Returns the number of elements."""
        return self.size

    if not TYPE_CHECKING:  # type checkers report such names themselves

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):  # a protocol, asked of a copy that has no attributes yet
                raise AttributeError(name)
            raise UnknownNameError(f"the declared {self.kind} {self!r}", name, lambda: self._hint(name))

    def _hint(self, name: str) -> str:
        """Returns a suggestion for a name that it lacks, as the end of a message."""
        if name in NAMES["Parameter"] or not hasattr(Methods, name):
            return name_hint("Parameter", name, dir(self))
        return "; it has no values: model.initialized(seed) gives a model with values"

    def refuse(self, *others: object) -> NoReturn:
        """Raises the error for computing with it.

        Raises:
            ParameterError: Always.
        """
        what = "parameter " if self.kind == "parameter" else "the "
        raise ParameterError(
            f"{what}{self!r} has no values: parameters are declared at construction and drawn by "
            "tg.compile; use them in a compiled loss or forward function, through the model that it is given, or call "
            "model.initialized(seed)"
        )

    __neg__ = __abs__ = __getitem__ = refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = refuse
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = refuse
    __lt__ = __le__ = __gt__ = __ge__ = refuse
