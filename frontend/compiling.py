"""`tg.compile`: a model, a loss and an optimizer become one program that runs a training step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.passes import ModulePass

from tensorgrad import random
from tensorgrad.accumulation import bytes_of_outputs, compiled_accumulation, micro_batches
from tensorgrad.device import find_device
from tensorgrad.dtypes import spec
from tensorgrad.errors import OptionError, ParameterError, UnusedParameterWarning
from tensorgrad.location import user_line
from tensorgrad.model_tracing import (
    checked_loss,
    drawn,
    input_specs,
    parameters_of,
    takes_key,
    trace_model,
    unreached,
)
from tensorgrad.nn.module import Module
from tensorgrad.optim import Optimizer, Settings
from tensorgrad.passes.accumulate_gradients import AccumulateGradientsPass
from tensorgrad.passes.optimizer import OptimizerPass
from tensorgrad.passes.pipelines import tensor_passes
from tensorgrad.pipeline import Compilation, EditPasses, Phases, tuning_seconds
from tensorgrad.precision import check_device, checked_precision, while_tracing
from tensorgrad.tracer import checked_module, function_name, refuse_inside_trace
from tensorgrad.training import Training
from tensorgrad.training_state import Source


def compile(
    model: Module,
    *,
    loss: Callable[..., Any],
    optimizer: Optimizer,
    inputs: Mapping[str, Any],
    device: str = "auto",
    seed: int = 0,
    checks: bool = False,
    memory_limit: int | None = None,
    tune: bool | float = False,
    accumulate: int = 1,
    precision: str = "f32",
    loss_scale: float | None = None,
    edit_passes: EditPasses | None = None,
) -> Training:
    """Compiles a training step: the loss, its gradient by every parameter, and the optimizer's update.

    Args:
        model: The parameters to train, but for those that `model.freeze` names; each is drawn from the seed and its
            path. One that the loss does not depend on gets an `UnusedParameterWarning`.
        loss: Called once, as `loss(model, **inputs)`, with traced tensors; gives a float scalar. A loss that takes a
            `key` which is none of the inputs gets `tg.random.fold_in(tg.random.key(seed), step)`, step being 1 first
            and counting micro-batches.
        optimizer: One of `tg.optim`.
        inputs: A shape (f32) or a `tg.spec` for each input of the loss, by name.
        device: "auto" for a hardware adapter where there is one, else numpy, which the log and `repr` of the training
            say; "wgpu" for any adapter; "numpy".
        seed: What parameters and the keys of the steps are drawn from.
        checks: Whether to look for NaN and infinities in the inputs of every call, and raise an `InputError`.
        memory_limit: The most bytes that parameters, state, inputs, outputs and all temporary values may take together
            on the device. Where a step needs more, it runs in an order that needs less, and parts of the loss are
            computed again for the derivative instead of being kept; `stats()["memory_limit"]` says what that costs.
            On numpy nothing plans memory, so there it is an error.
        tune: Whether to measure schedules of the kernels that take the most time, or for how many seconds at most
            (True is 60). The best are kept on disk for the device, so that the next compilation finds them. On numpy
            there is nothing to choose.
        accumulate: Over how many calls of `step` gradients are added up. The inputs of each are a micro-batch; the last
            call of as many updates the parameters by the mean of their gradients, which takes the memory of one
            micro-batch and one more copy of the trained parameters. Where the loss is a mean, that is the step of
            one batch of all their examples, but for roundings and for what depends on a batch as a whole, such as batch
            norm, whose statistics each micro-batch has of its own and updates.
        precision: "f32"; or "f16" to store activations between kernels as half floats, saved ones included. Everything
            is computed in f32, and parameters, optimizer state, inputs, outputs, statistics, losses and cotangents are
            kept in it. What passes 65504 is stored as an infinity. Attached functions do the same.
        loss_scale: With "f16", stores cotangents of activations as half floats too, multiplied by this power of two,
            which loads take back, so that small ones do not underflow; gradients of parameters stay f32. One that is
            too large makes infinities, which the parameters show.
        edit_passes: Called with the list of passes on `tg`, and again with the list of those below it, which only a
            device has; returns the list to run.

    Returns:
        What runs the step; see `Training`.

    Raises:
        TraceError: This is inside a trace, or the loss does what can't be traced.
        ParameterError: The model has no parameters, all are frozen, or the loss changes which it has.
        InputError: The loss takes other arguments than `inputs`.
        ShapeError, DTypeError: Shapes or dtypes in the loss don't fit, or its result is no float scalar.
        OptionError: A setting is out of range.
        NoAdapterError: There is no adapter for device "wgpu".
        ProgramError, TargetError: The device can't run the program.
    """
    refuse_inside_trace("tg.compile")
    if not callable(getattr(optimizer, "append_pass", None)):
        raise OptionError(f"optimizer must be one of tg.optim, such as tg.optim.adam(1e-3), got {optimizer!r}")
    if not isinstance(checks, bool):
        raise OptionError(f"checks must be True or False, got {checks!r}")
    if memory_limit is not None and (
        isinstance(memory_limit, bool) or not isinstance(memory_limit, int) or memory_limit <= 0
    ):
        raise OptionError(f"memory_limit must be a positive number of bytes, an integer, got {memory_limit!r}")
    tuning, micro = tuning_seconds(tune), micro_batches(accumulate)
    rounding = checked_precision("tg.compile", precision, loss_scale)
    parameters = parameters_of(model)
    trained = {path: place for place, (path, one) in enumerate(parameters.items()) if one.trainable}
    if not trained:
        raise ParameterError(f"{user_line()}: all parameters of {type(model).__name__} are frozen")
    if isinstance(optimizer, Settings):
        optimizer.check_parameters({path: parameters[path].shape for path in trained})
    key = random.key(seed)
    phases = Phases()
    with_key = takes_key(loss) and isinstance(inputs, Mapping) and "key" not in inputs
    specs = input_specs({**inputs, "key": spec(2, "u32")} if with_key else inputs)
    with phases.measure("trace"), while_tracing("tg.compile", rounding):
        traced = trace_model(model, loss, specs, checked_loss, "kept")
    name = traced.function.sym_name.data
    for path in unreached(traced.function, trained):
        message = f"{function_name(loss)}() does not depend on the parameter {path!r}, which is to be trained"
        warnings.warn(f"{user_line()}: {message}", UnusedParameterWarning, stacklevel=2)
    with phases.measure("initialize"):
        values = drawn({**parameters, **model.named_buffers()}, key)
    with phases.measure("load"):
        found = find_device(device)

    if memory_limit is not None and found is None:
        raise OptionError("memory_limit is for a device that plans its memory; numpy plans none")
    check_device("tg.compile", rounding, found)

    wrt = None if len(trained) == len(parameters) else tuple(trained.values())

    def passes(segments: int) -> Sequence[ModulePass]:
        update = optimizer.append_pass(name, list(trained))
        if found is not None and isinstance(update, OptimizerPass):
            target = found.target
            update = replace(update, row_bytes=min(target.max_storage_buffer_binding_size, target.max_buffer_size))
        mean = [AccumulateGradientsPass(steps=micro, function=name)] if micro > 1 else []
        return tensor_passes(name, [*mean, update], segments, wrt)

    module = checked_module(traced.function)
    reserved = 0 if micro == 1 else bytes_of_outputs(traced.function)
    compilation = Compilation(
        name, module, passes, found, phases, memory_limit, reserved, tuning, precision=rounding, edit_passes=edit_passes
    )
    executable = compilation.load(share=None)
    accumulation = None if micro == 1 else compiled_accumulation(compilation, executable, list(trained), micro)
    executable.write(values)
    source = Source(model, loss, specs, traced.results, device)
    return Training(source, optimizer, compilation, executable, seed, with_key, checks, accumulation)
