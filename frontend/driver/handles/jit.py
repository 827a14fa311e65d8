"""`tg.jit`: compiles functions without a model when they are called."""

from __future__ import annotations

import functools
import inspect
import types
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, overload

import numpy as np

from tensorgrad.dialects.signature import Role, Slot, slots_attribute
from tensorgrad.dialects.tg.base import ELEMENT_TYPES
from tensorgrad.driver.compiling.compilation import compile_recipe
from tensorgrad.driver.compiling.recipe import Recipe
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.driver.device import DeviceName, check_name, find_device
from tensorgrad.driver.device_loss import OnDeviceLost, check_may_be_lost, snapshots
from tensorgrad.driver.handles.compiled import MOST_SPECIALIZATIONS, Specialization, Specializations
from tensorgrad.driver.handles.donation import Donating, Donation, StateHandle
from tensorgrad.driver.handles.last_call import LastCall, kinds_of
from tensorgrad.driver.precision import Precision, check_device, checked_precision, while_tracing
from tensorgrad.driver.stepping.broadcast_check import warn_of_pairs
from tensorgrad.driver.stepping.draws_check import warning_of_draws
from tensorgrad.driver.stepping.model_tracing import checked_results
from tensorgrad.errors import DTypeError, InputError, OptionError
from tensorgrad.nn.values import check_kept, closed, opened
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.passes.levels import LevelPass
from tensorgrad.passes.pipelines import forward_passes
from tensorgrad.runtime.tracebacks import trim
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.grad_mode import is_grad_enabled
from tensorgrad.tracing.likes import Positional, Result
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array
from tensorgrad.tracing.tracer import as_array, checked_module, current_trace, function_name, trace_call, unique
from tensorgrad.tracing.value_keys import value_key
from tensorgrad.transforms.grad import Computation

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice

Key: TypeAlias = tuple[Hashable, ...]

TAKEN = frozenset(dtype for dtype in ELEMENT_TYPES if dtype.itemsize < 8)
"""The NumPy dtypes that devices accept as they are: 64-bit dtypes are converted to 32 bits first."""


class Jitted(Specializations[Key], Generic[Result]):
    """A function that is traced and compiled when it is first called with new shapes, dtypes or static arguments.

    When called inside a trace, it is traced as part of its caller. It is not thread-safe.

    Example:
        >>> double = tg.jit(lambda x: x + x, device="numpy")
        >>> double(np.ones(3, np.float32))
        Array([2., 2., 2.], dtype=f32, device='numpy')
    """

    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        static: Sequence[str],
        donate: Sequence[str],
        device: str,
        precision: LevelPass | None,
        snapshot_every: int | None,
    ):
        super().__init__(function_name(function))
        functools.update_wrapper(self, function)
        self._function = function
        self._static, self._donate = frozenset(static), frozenset(donate)
        self._device_name = device
        self._precision = precision
        self._snapshot_every = snapshot_every
        self._signature = _signature(function, {"static": static, "donate": donate})
        parameters = self._signature.parameters.values()
        is_plain = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
        self._positional = tuple(self._signature.parameters) if is_plain else None
        self._differentiated: OrderedDict[Key, Computation] = OrderedDict()
        self._last: LastCall | None = None

    @functools.cached_property
    def _device(self) -> ProgramDevice | None:
        return find_device(self._device_name)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __copy__(self) -> Jitted:
        return self

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Jitted:
        """Returns itself, as functions do."""
        return self

    def __call__(self, /, *args: Any, **kwargs: Any) -> Result:
        """Runs the function.

        Args:
            *args: Pytrees of arrays and numbers: whatever `tg.array` accepts, in dicts, lists, tuples, dataclasses and
                initialized modules. A Python number becomes a scalar of i32, f32 or bool. Static arguments are passed
                as is. A `tg.Array` that is passed again in the next call, alone or in a module, is still on the device.
                If one requires a gradient, the function is an op on its device, through which the gradient propagates.
            **kwargs: The same, by name.

        Returns:
            The function's result, with `tg.Array`s for tensors; they are read from the device on first access.

        Raises:
            InputError: The function takes other arguments, or a static one is not hashable.
            DTypeError: An argument holds no numbers, or numbers that don't fit the dtype.
            TraceError, ShapeError, DTypeError, ParameterError: The function does something invalid.
            ProgramError, TargetError, DeviceError: The device can't run it.
        """
        try:
            if current_trace() is not None:
                return self._function(*args, **kwargs)
            bound = self._bound(args, kwargs)
            arguments = {name: opened(value) for name, value in bound.arguments.items() if name not in self._static}
            leaves, structure = trees.leaves_and_structure(arguments)
            known = self._static_key(bound), structure
            last = self._last if self._last is not None and self._last.is_like(known, leaves) else None
            places = range(len(leaves)) if last is None else last.varying
            if is_grad_enabled() and any(_requires_gradient(leaves[place]) for place in places):
                return self._differentiable(bound, arguments, leaves, known)
            arrays = self._arrays(leaves, places, arguments)
            if last is not None and kinds_of(arrays) != last.kinds:
                last, arrays = None, self._arrays(leaves, range(len(leaves)), arguments)
            if last is None:
                last = self._call(bound, arguments, leaves, known, arrays)
                arrays = [arrays[place] for place in last.varying]
            return closed(last.run(arrays))
        except BaseException as error:
            trim(error)
            raise

    def _call(
        self,
        bound: inspect.BoundArguments,
        arguments: Mapping[str, Any],
        leaves: Sequence[Any],
        known: Key,
        arrays: Sequence[Any],
    ) -> LastCall:
        """Returns a call with new leaves or shapes, for which the function is compiled if it isn't yet."""
        compiled = self._compiled((*known, kinds_of(arrays)), lambda: self._traced(bound, arguments, arrays))
        donated = frozenset(name for name in compiled.inputs if name.partition(".")[0] in self._donate)
        self._last = LastCall(known, leaves, arrays, compiled, donated)
        return self._last

    def _differentiable(
        self, bound: inspect.BoundArguments, arguments: Mapping[str, Any], leaves: Sequence[Any], known: Key
    ) -> Any:
        """Returns the function's result for leaves some of which require gradients, with the graph behind it."""
        tensors = [leaf if isinstance(leaf, Array) else as_tensor(leaf) for leaf in leaves]
        key = (*known, tuple([(tensor.shape, tensor.dtype) for tensor in tensors]))
        application = self._differentiated.get(key)
        if application is not None:
            self._differentiated.move_to_end(key)
            return application.again(tensors)
        rebuild = trees.flatten(arguments)[1]
        computation = Computation(self._name, lambda *new: self._applied(bound, rebuild(new)), tensors)
        self._differentiated[key] = computation
        if len(self._differentiated) > MOST_SPECIALIZATIONS:
            self._differentiated.popitem(last=False)
        return computation(tensors)

    def _applied(self, bound: inspect.BoundArguments, arguments: Mapping[str, Any]) -> Any:
        """Returns the function's result for the arguments that are not static."""
        complete = inspect.BoundArguments(self._signature, dict(bound.arguments))
        complete.arguments.update(closed(arguments))
        return self._function(*complete.args, **complete.kwargs)

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        names = self._positional
        if names is not None and not kwargs and len(args) == len(names):  # as `bind` would, at a tenth of its time
            return inspect.BoundArguments(self._signature, OrderedDict(zip(names, args, strict=True)))
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(f"{self._name}(): {error}; it takes {self._signature}") from None

    def _arrays(self, leaves: Sequence[Any], places: Sequence[int], arguments: Mapping[str, Any]) -> list[Any]:
        """Returns the arrays of some leaves; for a donated one, the state that it is."""
        held = _state_or_host_array if self._donate else _host_array
        arrays = [held(leaves[place]) for place in places]
        return [
            self._array(leaves[place], arguments, place) if array is None else array
            for place, array in zip(places, arrays, strict=True)
        ]

    def _array(self, leaf: Any, arguments: Mapping[str, Any], place: int) -> np.ndarray:
        # A device has its own memory; NumPy may return an argument as a result, so there it has to be copied.
        if type(leaf) is np.ndarray and leaf.dtype in TAKEN and self._device is not None:
            return leaf
        try:
            return as_array(leaf)
        except DTypeError as error:
            path = trees.paths(arguments)[place]
            is_array = hasattr(leaf, "__array__") or hasattr(leaf, "__dlpack__")
            advice = "" if is_array else "; what is not an array goes into static="
            raise DTypeError(f"{error}, in argument {path!r} of {self._name}(){advice}") from None

    def _static_key(self, bound: inspect.BoundArguments) -> Hashable:
        values = [(name, bound.arguments[name]) for name in sorted(self._static & bound.arguments.keys())]
        for name, value in values:
            try:
                hash(value)
            except TypeError as error:
                raise InputError(f"{self._name}(): static argument {name!r}: {error}") from None
        return tuple((name, value_key(value)) for name, value in values)

    def _traced(
        self, bound: inspect.BoundArguments, arguments: Mapping[str, Any], arrays: Sequence[np.ndarray]
    ) -> Specialization:
        phases = Phases()
        check_device("jit", self._precision, self._device)

        specs = trees.flatten(arguments)[1]([Spec(array.shape, array.dtype) for array in arrays])
        names = _names(specs)
        donated = {name for name in names if name.partition(".")[0] in self._donate}
        donations: list[Donation] = []

        def program(arguments: Mapping[str, Any]) -> Any:
            result = self._applied(bound, arguments)
            check_kept(arguments, f"{user_line()}: {self._name}()")
            result = opened(checked_results(result, f"{self._name}()"))
            if not donated:
                return result, []
            tensors = dict(zip(names, trees.flatten(arguments)[0], strict=True))
            donations.append(Donation({name: tensors[name] for name in donated}, result, f"{self._name}()"))
            return donations[0].others, list(donations[0].updates.values())

        with phases.measure("trace"), while_tracing("jit", self._precision), warning_of_draws(self._name):
            slots = [Slot(name, Role.STATE if name in donated else Role.INPUT) for name in names]
            traced, (positions, _) = trace_call(self._name, program, [specs], slots)
            order, rebuild = trees.flatten(positions)
            outputs = unique([Slot(path or "output", Role.OUTPUT) for path in trees.paths(positions)])
            updates = [Slot(name, Role.UPDATE) for donation in donations for name in donation.updates]
            traced.properties["res_attrs"] = slots_attribute([*outputs, *updates])
        warn_of_pairs(traced, self._name)
        module = checked_module(traced)
        recipe = Recipe(
            self._name,
            module,
            lambda _, target: forward_passes(target),
            self._device,
            precision=self._precision,
            snapshot_every=self._snapshot_every,
        )
        results = [outputs[i].name for i in order]
        compilation = compile_recipe(recipe, phases)
        if donations:
            return Donating(compilation, names, donations[0], results)
        return Specialization(compilation, rebuild(results), inputs=names)


def _requires_gradient(leaf: Any) -> bool:
    return isinstance(leaf, Array) and leaf.live is not None and leaf.requires_grad


def _host_array(leaf: Any) -> np.ndarray | None:
    """Returns the array of a tensor whose values are on the host, and never change; `None` for anything else."""
    if not isinstance(leaf, Array):
        return None
    if leaf.live is None:
        return leaf.host_array
    value = leaf.live.value
    return value.source if type(value.source) is np.ndarray and not value.is_outdated else None


def _state_or_host_array(leaf: Any) -> Any:
    """Returns what `_host_array` does, or the state of a program, which may have been donated to it."""
    if not isinstance(leaf, Array):
        return None
    value = None if leaf.live is None else leaf.live.value
    source = leaf.source if value is None else value.source
    is_state = isinstance(source, StateHandle) and (value is None or not value.is_outdated)
    return source if is_state else _host_array(leaf)


def _names(arguments: Mapping[str, Any]) -> list[str]:
    """Returns the distinct paths of the leaves."""
    return [slot.name for slot in unique([Slot(path, Role.INPUT) for path in trees.paths(arguments)])]


def _signature(function: Callable[..., Any], named: Mapping[str, Sequence[str]]) -> inspect.Signature:
    """Returns a function's signature, after checking that it has the arguments that options name."""
    if not callable(function):
        raise OptionError(f"jit: takes a function, got {function!r}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        arguments = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
        parts = [inspect.Parameter(name, kind) for name, kind in zip(("args", "kwargs"), arguments, strict=True)]
        signature = inspect.Signature(parts)
    for option, names in named.items():
        for name in names:
            if name not in signature.parameters:
                raise OptionError(f"jit: {option} argument {name!r} is none of {signature}")
    for name in named["donate"]:
        if name in named["static"]:
            raise OptionError(f"jit: argument {name!r} is static, which has no memory to donate")
    return signature


@overload
def jit(
    function: Positional[Any, Result],
    *,
    static: str | Sequence[str] = (),
    donate: str | Sequence[str] = (),
    device: DeviceName = "auto",
    precision: Precision = "f32",
    on_device_lost: OnDeviceLost = "raise",
) -> Jitted[Result]: ...


@overload
def jit(
    function: Callable[..., Result],
    *,
    static: str | Sequence[str] = (),
    donate: str | Sequence[str] = (),
    device: DeviceName = "auto",
    precision: Precision = "f32",
    on_device_lost: OnDeviceLost = "raise",
) -> Jitted[Result]: ...


@overload
def jit(
    *,
    static: str | Sequence[str] = (),
    donate: str | Sequence[str] = (),
    device: DeviceName = "auto",
    precision: Precision = "f32",
    on_device_lost: OnDeviceLost = "raise",
) -> Callable[[Callable[..., Result]], Jitted[Result]]: ...


def jit(
    function: Callable[..., Result] | None = None,
    *,
    static: str | Sequence[str] = (),
    donate: str | Sequence[str] = (),
    device: DeviceName = "auto",
    precision: Precision = "f32",
    on_device_lost: OnDeviceLost = "raise",
) -> Any:
    """Compiles a function of arrays when it is called: once for all calls with the same shapes, dtypes and trees.

    It can be used as a decorator, with or without options. `tg.grad` and the other transformations work inside and
    outside of it.

    Args:
        function: A function of pytrees of tensors that returns a tensor or a pytree of them.
        static: Names of arguments that stay Python values and are compiled in: they have to be hashable, and the
            function is compiled for each value.
        donate: Names of arguments that results replace: of each, every array is stored where a result of the same
            shape and dtype is stored after the call, and can't be read any more. Passing the results back in the next
            call, as with a cache of keys and values, then copies nothing, and takes no second buffer.
        device: "auto" for a hardware adapter if there is one, else the CPU; "wgpu" for any adapter; "cpu" for native
            code; "numpy" for the reference.
        precision: "f16" and "bf16" store what depends on products, convolutions or attention with 16 bits between
            kernels, "bf16-products" rounds the factors of products, see `tg.compile`. With "f16" no derivative may be
            taken inside.
        on_device_lost: "raise" raises a `DeviceLostError` when the device is lost. "restart" continues on a new device:
            the inputs of unread results are kept in host memory, and the results recomputed.

    Returns:
        The compiled function, with the function's name and docstring; see `Jitted`.

    Raises:
        OptionError: `static` or `donate` names no argument, or the device, the precision or `on_device_lost` is
            unknown.

    Example:
        >>> @tg.jit(static="power")
        ... def total(values, power=2):
        ...     return tg.sum(values["x"] ** power)
        >>> float(total({"x": tg.array([1.0, 2.0, 3.0])}, power=3))
        36.0
    """
    named = _argument_names("static", static), _argument_names("donate", donate)
    check_name(device)
    rounding, every = checked_precision("jit", precision), snapshots(on_device_lost)
    if every is not None:
        check_may_be_lost(device)
    if function is None:
        return lambda function: Jitted(function, *named, device, rounding, every)
    return Jitted(function, *named, device, rounding, every)


def _argument_names(option: str, names: object) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Sequence):
        raise OptionError(f"{option} must be names of arguments, got {names!r}")
    return tuple(str(name) for name in names)
