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

    @property
    def mT(self) -> Any:
        """The tensor with its last two axes exchanged."""
        return import_module("tensorgrad.array_api").matrix_transpose(self)

    @property
    def device(self) -> Any:
        """The device of the values, as the Array API standard has it."""
        return import_module("tensorgrad.array_api.devices").DEVICE

    def to(self, target: Any = None, dtype: Any = None, *, device: Any = None, copy: bool = False) -> Any:
        """Returns the tensor on another device, with another dtype, or both; itself, where it is so already.

        `x.to("cpu")`, `x.to("f16")`, `x.to("wgpu", "f32")`, `x.to(other)`. A copy on another device computes what is
        recorded for the tensor. Gradients go back through it, to the leaf on its own device. An array of the host
        becomes a leaf.

        Args:
            target: A device, as for `tg.tensor`; a dtype; or a tensor, whose device and dtype it is to have. Arrays of
                the host and traced tensors are on no device of their own: of them it takes the dtype alone.
            dtype: The dtype. It is converted by the rules of `astype`.
            device: The device.
            copy: Whether to copy the tensor where it would be given itself.

        Raises:
            OptionError: There is no such device, or it is "host" for a tensor on a device.
            DTypeError: There is no such dtype, or not on the device.
            ArgumentError: The device or the dtype is given twice.
            TraceError: Another device is asked for inside a trace.
        """
        return import_module("tensorgrad.driver.homes").moved(self, target, dtype, device, copy)

    def cpu(self) -> Any:
        """Returns the tensor on the device "cpu", as `to("cpu")` does."""
        return self.to("cpu")

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """Returns the tensor on a device of the Array API standard, as `to` does; itself where it is traced.

        Args:
            device: The device.
            stream: Ignored: work on a device is done in order.

        Raises:
            OptionError: There is no such device, or it is the host for a tensor that lives on a device.
            DTypeError: The device has no elements of the tensor's dtype.
            TraceError: A tensor that lives on a device is to be moved inside a trace.
        """
        return import_module("tensorgrad.array_api.devices").on_device(self, device)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """Returns `tensorgrad.array_api`, the functions of the Array API standard.

        Raises:
            OptionError: It follows no such version of the standard.
        """
        import_module("tensorgrad.array_api.inspection").check_version(api_version)
        return import_module("tensorgrad.array_api")

    def __getitem__(self, key: Any) -> Any:
        return import_module("tensorgrad.ops.keys").index(self, key)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return import_module("tensorgrad.ops.numpy_functions").elementwise(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return import_module("tensorgrad.ops.numpy_functions").other(function, args, kwargs)


def revived(values: Any, dtype: str, device: str, requires_grad: bool) -> Any:
    """Returns a tensor on a device as it was pickled."""
    return import_module("tensorgrad").tensor(values, dtype, device=device, requires_grad=requires_grad)


for _name in listed("surface/methods.pyi"):
    setattr(Methods, _name, _Unloaded(_name))
