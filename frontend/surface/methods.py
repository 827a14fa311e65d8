"""The methods of tensors: functions of the API, loaded when they are first used. `methods.pyi` lists them.

This is the one place where names lead from tensors to the functions of tensors, which import tensors.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensorgrad.surface.stubs import listed


class _Unloaded:
    """A method whose module is not loaded yet: the class gets the function in its place at the first use."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        function = getattr(import_module("tensorgrad"), self._name)
        setattr(Methods, self._name, function)
        return function.__get__(instance, owner)


class Methods:
    """What tensors have as methods: functions that take the tensor as their first argument."""

    @property
    def at(self) -> Any:
        """`x.at[key].set(values)` and `x.at[key].add(values)` give a changed copy."""
        return import_module("tensorgrad.ops.index").Changes(self)

    def __getitem__(self, key: Any) -> Any:
        return import_module("tensorgrad.ops.keys").index(self, key)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return import_module("tensorgrad.ops.numpy_functions").elementwise(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return import_module("tensorgrad.ops.numpy_functions").other(function, args, kwargs)


for _name in listed("surface/methods.pyi"):
    setattr(Methods, _name, _Unloaded(_name))
