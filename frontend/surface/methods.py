"""The methods of tensors: functions of the API, loaded on first use. `methods.pyi` lists them.

This is the only module through which tensors refer to the functions of tensors, which import tensors.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensorgrad.surface.stubs import listed


class _Unloaded:
    """A method whose module is not loaded yet: it is replaced by the function of a public name on first use."""

    def __init__(self, name: str, public: str):
        self._name, self._public = name, public

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        function = getattr(import_module("tensorgrad"), self._public)
        setattr(Methods, self._name, function)
        return function.__get__(instance, owner)


class Methods:
    """The methods of tensors: functions that take the tensor as their first argument."""

    @property
    def at(self) -> Any:
        """`x.at[key].set(values)` and `x.at[key].add(values)` return a changed copy; see `tensorgrad.ops.changes`."""
        return import_module("tensorgrad.ops.changes").Changes(self)

    @property
    def mT(self) -> Any:
        """The tensor with its last two axes swapped."""
        return import_module("tensorgrad.array_api").matrix_transpose(self)

    @property
    def device(self) -> Any:
        """The device of the values, as in the Array API standard."""
        return import_module("tensorgrad.array_api.devices").DEVICE

    def to(self, target: Any = None, dtype: Any = None, *, device: Any = None, copy: bool = False) -> Any:
        """Returns the tensor on another device, with another dtype, or both; itself if nothing changes.

        `x.to("cpu")`, `x.to("f16")`, `x.to("wgpu", "f32")`, `x.to(other)`. A copy to another device runs the
        computations recorded for the tensor. Gradients propagate back through it, to the leaf on its own device. A host
        array becomes a leaf.

        Args:
            target: A device, as for `tg.tensor`; a dtype; or a tensor whose device and dtype to use. Host arrays and
                traced tensors have no device of their own: only their dtype is used.
            dtype: The dtype. It is converted by the rules of `astype`.
            device: The device.
            copy: Whether to copy the tensor even if nothing changes.

        Raises:
            OptionError: There is no such device, or it is "host" for a tensor on a device.
            DTypeError: There is no such dtype, or the device doesn't support it.
            ArgumentError: The device or the dtype is given twice.
            TraceError: Another device is requested inside a trace.
        """
        return import_module("tensorgrad.driver.handles.eager_devices").moved(self, target, dtype, device, copy)

    def cpu(self) -> Any:
        """Returns the tensor on the device "cpu", as `to("cpu")` does."""
        return self.to("cpu")

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """Returns the tensor on a device of the Array API standard, as `to` does; itself if it is traced.

        Args:
            device: The device.
            stream: Ignored: a device executes work in order.

        Raises:
            OptionError: There is no such device, or it is the host for a tensor that lives on a device.
            DTypeError: The device doesn't support the tensor's dtype.
            TraceError: A tensor that lives on a device would be moved inside a trace.
        """
        return import_module("tensorgrad.array_api.devices").on_device(self, device)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """Returns `tensorgrad.array_api`, the functions of the Array API standard.

        Raises:
            OptionError: It does not support this version of the standard.
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
    """Returns an unpickled tensor on its device."""
    return import_module("tensorgrad").tensor(values, dtype, device=device, requires_grad=requires_grad)


def _conversion(name: str, dtype: str) -> Any:
    def convert(self: Any) -> Any:
        return self.astype(dtype)

    convert.__name__, convert.__qualname__ = name, f"Tensor.{name}"
    convert.__doc__ = f"""Returns the tensor as {dtype}, as `astype("{dtype}")` does."""
    return convert


CONVERSIONS = {
    "bfloat16": "bf16",
    "bool": "bool",
    "double": "f64",
    "float": "f32",
    "half": "f16",
    "int": "i32",
    "long": "i64",
    "short": "i16",
}
"""The dtype that each of PyTorch's conversions makes."""

_modules, _others = listed("surface/methods.pyi")
for _name, _public in {**{name: name for name in _modules}, **_others}.items():
    setattr(Methods, _name, _Unloaded(_name, _public))
for _name, _dtype in CONVERSIONS.items():
    setattr(Methods, _name, _conversion(_name, _dtype))
