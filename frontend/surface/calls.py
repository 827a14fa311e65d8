"""Calls of public functions: argument names of other libraries, and errors for names that don't exist.

`public` wraps each public function. If the arguments bind, it just forwards them; its extra knowledge is used only when
Python can't bind them. Inside the package, functions are called directly, so that is also the boundary at which
exceptions lose the frames of the package; see `tensorgrad.runtime.tracebacks`.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, NoReturn, TypeVar

from tensorgrad.runtime.errors import ArgumentError, UserError
from tensorgrad.runtime.tracebacks import boundary, trim
from tensorgrad.surface import foreign
from tensorgrad.surface.foreign import DIFFERENT, keyword_hint

Public = TypeVar("Public")
Class = TypeVar("Class", bound=type)

SAME = {
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keepdims",
    "kernel_size": "size",
    "count_include_pad": "count_padding",
    "tau": "temperature",
}
"""Arguments that are also accepted under another library's name."""


def public(value: Public, namespace: str | None = None) -> Public:
    """Returns a function, or a class with its methods, wrapped for users. A class is modified in place.

    Args:
        value: The function or class.
        namespace: The module that exports it, if that is not the module that defines it.
    """
    anything: Any = value
    if isinstance(value, type):
        for base in value.__mro__:
            if base.__module__.split(".", 1)[0] == "tensorgrad":
                _publish_methods(base)
        return anything
    if not isinstance(value, types.FunctionType) or hasattr(value, "__public__"):
        return anything
    result = _around(value)
    result.__public__ = True
    result.__module__ = namespace or value.__module__  # pickle looks it up there
    return result


def publish(namespace: MutableMapping[str, Any]) -> None:
    """Makes the functions and classes of a module public: those listed in `__all__`, or else all that it defines.

    `dir` of the module lists only these, and a name that it lacks raises an error with a suggestion.

    Args:
        namespace: The module's globals.
    """

    name = namespace["__name__"]
    defined = [key for key, value in namespace.items() if getattr(value, "__module__", None) == name]
    listed = namespace.get("__all__", [key for key in defined if not key.startswith("_")])
    for key in listed:
        value = namespace[key]
        if isinstance(value, types.FunctionType | type) and not _is_exception(value):
            namespace[key] = public(value, name)

    @boundary
    def unknown(attribute: str) -> NoReturn:
        raise foreign.unknown_name(name, attribute, namespace)

    namespace.setdefault("__getattr__", unknown)
    namespace.setdefault("__dir__", lambda: list(listed))


def _is_exception(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def guarded(kind: Class) -> Class:
    """Makes the methods that Python and NumPy call boundaries of tracebacks. The class is modified in place."""
    _wrap_methods(kind, PROTOCOL, boundary)
    return kind


def _publish_methods(kind: type) -> None:
    named = [name for name in vars(kind) if not name.startswith("_") or name in METHODS]
    _wrap_methods(kind, named, _around)
    _wrap_methods(kind, PROTOCOL, boundary)


def _wrap_methods(kind: type, names: Iterable[str], wrap: Callable[[Any], Any]) -> None:
    """Wraps those methods of a class that it defines itself in the package, each once."""
    for name in names:
        value: Any = vars(kind).get(name)
        is_ours = isinstance(value, types.FunctionType) and value.__module__.split(".", 1)[0] == "tensorgrad"
        if is_ours and not hasattr(value, "__public__"):
            wrapped = wrap(value)
            wrapped.__public__ = True
            setattr(kind, name, wrapped)


METHODS = ("__init__", "__call__")
PROTOCOL = (
    *("__getattr__", "__setattr__", "__getitem__", "__setitem__", "__delitem__", "__len__", "__iter__"),
    *("__neg__", "__abs__", "__invert__", "__divmod__", "__rdivmod__"),
    *("__bool__", "__int__", "__float__", "__complex__", "__index__", "__array__", "__format__"),
    *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")),
    *("__iand__", "__ior__", "__ixor__"),
    *("__array_ufunc__", "__array_function__", "__array_namespace__", "__dlpack__", "__reduce__"),
)
"""Methods that Python and NumPy call for the user, whose arguments always bind; binary operators trim by themselves."""


def _around(function: Any) -> Any:
    whole = getattr(function, "__whole__", None)  # of tensorgrad.ops.recorded

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                if whole is None:
                    return function(*args, **kwargs)
                result = whole(args, kwargs)
                return whole.distinct(function(*args, **kwargs), args, kwargs) if result is None else result
            except TypeError as error:
                if isinstance(error, UserError) or _binds(function, args, kwargs):
                    raise
            return call(*args, **_renamed(function, args, kwargs))
        except BaseException as error:
            trim(error)
            raise

    return call


def _binds(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _renamed(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keyword arguments under our names.

    Raises:
        ArgumentError: Together with the positional arguments they still don't bind to the function, or under the other
            library's names they mean something else.
    """
    parameters = inspect.signature(function).parameters
    renamed: dict[str, Any] = {}
    for name, value in kwargs.items():
        ours = SAME.get(name, name)
        ours = ours if name not in parameters and ours in parameters else name
        different = DIFFERENT.get(function.__name__) if ours != name else None
        if different is not None and different[1].isdisjoint(kwargs):
            raise ArgumentError(f"{_title(function, args)} with {name}= {different[0]}")
        if ours in renamed or (ours != name and ours in kwargs):
            raise ArgumentError(f"{_title(function, args)} got {name}= and {ours}=, which are the same: give one")
        renamed[ours] = value
    try:
        inspect.signature(function).bind(*args, **renamed)
    except TypeError as error:
        raise ArgumentError(_misfit(function, args, renamed, str(error))) from None
    return renamed


def _misfit(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], reason: str) -> str:
    """Returns the message for arguments that don't bind, with the function's signature."""

    signature = inspect.signature(function)
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [name for name, kind in kinds.items() if kind not in open_ended]
    takes_any = inspect.Parameter.VAR_KEYWORD in kinds.values()
    method = _is_method(function)
    unknown = [name for name in kwargs if name not in named]
    by_position = [
        name
        for name, kind in kinds.items()
        if kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    title = _title(function, args)
    if unknown and not takes_any:
        known = [name for name in named if not (method and name == named[0])]
        listed = " and ".join(repr(name) for name in unknown)
        what = f"{title} has no argument {listed}{keyword_hint(unknown[0], known, function.__name__ == '__call__')}"
    elif len(args) > len(by_position) and inspect.Parameter.VAR_POSITIONAL not in kinds.values():
        what = f"{title} {_positions(args, by_position, named, method, takes_any)}"
    else:
        what = f"{title} {reason.replace('missing a required', 'needs the').replace('argument: ', 'argument ')}"
    return f"{what}; it takes {_shown(signature, method)}"


def _positions(args: Sequence[Any], by_position: Sequence[str], named: Sequence[str], method: bool, rest: bool) -> str:
    most, number = len(by_position) - method, len(args) - method
    by_name = [name for name in named if name not in by_position]
    names = getattr(args[0], "_input_names", ()) if method and rest else by_name
    example = f", such as {', '.join(f'{name}=' for name in names)}" if names else ""
    count = "no argument" if most == 0 else f"{most} argument" if most == 1 else f"{most} arguments"
    if by_name or rest:
        others = "them" if most == 0 else "the others"
        return f"takes {count} by position, got {number}: give {others} by name{example}"
    return f"takes {count}, got {number}"


def _is_method(function: Any) -> bool:
    parts = function.__qualname__.split(".")
    return len(parts) > 1 and parts[-2] != "<locals>"


def _title(function: Any, args: Sequence[Any] = ()) -> str:
    """Returns the title of a call: a class if it creates an instance, or calls one."""
    parts = function.__qualname__.split(".")
    if parts[-1] not in METHODS or len(parts) == 1:
        return f"{parts[-1]}()"
    return f"{type(args[0]).__name__ if args else parts[-2]}()"


def _shown(signature: inspect.Signature, method: bool) -> str:
    """Returns a signature without annotations, and without `self`."""
    parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(parameters[method:]))
