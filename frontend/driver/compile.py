"""`tg.compile`: compiles a model, a loss and an optimizer into one program that runs a training step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from xdsl.dialects.func import FuncOp

from tensorgrad.dialects.signature import arguments_of
from tensorgrad.driver.compiling.compilation import compile_recipe
from tensorgrad.driver.compiling.recipe import EditPasses
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.driver.device import DeviceName, find_device
from tensorgrad.driver.device_loss import SNAPSHOT_EVERY, OnDeviceLost
from tensorgrad.driver.handles.training import Training
from tensorgrad.driver.precision import Precision, while_tracing
from tensorgrad.driver.stepping.accumulation import compiled_accumulation
from tensorgrad.driver.stepping.broadcast_check import warn_of_pairs
from tensorgrad.driver.stepping.distribution import checked_distribution
from tensorgrad.driver.stepping.draws_check import warning_of_draws
from tensorgrad.driver.stepping.model_tracing import (
    checked_loss,
    nested_specs,
    parameters_of,
    takes_key,
    trace_model,
    unreached,
)
from tensorgrad.driver.stepping.padding_check import warn_of_padding
from tensorgrad.driver.stepping.step_options import StepOptions
from tensorgrad.driver.stepping.step_programs import StepProgram, step_recipe
from tensorgrad.driver.stepping.step_source import Source, no_loss
from tensorgrad.errors import OptionError, UnusedParameterWarning
from tensorgrad.nn.module import Module, declarations
from tensorgrad.nn.parameters import drawing, drawn
from tensorgrad.nn.values import declared_model
from tensorgrad.nn.weights import Leaf
from tensorgrad.ops import random
from tensorgrad.optim import Optimizer
from tensorgrad.optim.parts import Losses, Parts, losses_of, parts_of
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.errors import warn_user
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.heap import return_freed_memory
from tensorgrad.tracing.dims import check_paddings
from tensorgrad.tracing.dtypes import spec
from tensorgrad.tracing.likes import Result
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import function_name, refuse_inside_trace


def compile(
    model: Module | Mapping[str, Any] | Sequence[Any],
    *,
    loss: Callable[..., Result] | None = None,
    optimizer: Optimizer | Mapping[str, Optimizer | None] | None = None,
    inputs: Mapping[str, Any] | None = None,
    device: DeviceName = "auto",
    seed: int = 0,
    checks: bool = False,
    check_numerics: bool = False,
    memory_limit: int | None = None,
    tune: bool | float = False,
    accumulate: int = 1,
    precision: Precision = "f32",
    loss_scale: float | None = None,
    edit_passes: EditPasses | None = None,
    verify: bool = False,
    timeout: float | None = None,
    on_device_lost: OnDeviceLost = "raise",
    snapshot_every: int = SNAPSHOT_EVERY,
    group: Group | None = None,
    shard: Literal["optimizer"] | None = None,
    replicated: Sequence[str] = (),
) -> Training[Result]:
    """Compiles a training step: the loss, its gradients with respect to the parameters, and the optimizer's update.

    A model may have parts with optimizers and losses of their own, such as a generator and a discriminator. A step is
    one program for all of them: every loss is differentiated with respect to the parameters of its own part alone, and
    every value that a loss, gradient or update reads is the one from before the step.

    Args:
        model: The model whose parameters are trained, except those that `model.freeze` names; each parameter is sampled
            from the seed and its path, or keeps its value if the model is initialized. Or a dict, list or tuple of
            modules and of float arrays and numbers, which are parameters; the loss receives the same structure with
            tensors. A parameter that the loss does not depend on causes an `UnusedParameterWarning`.
        loss: Called once, as `loss(model, **inputs)`, with traced tensors; returns a float scalar, or a dict with one
            for each part that is trained, by its name. If it has a parameter `key` that is not in `inputs`, it receives
            `tg.random.fold_in(tg.random.key(seed), step)`, where step starts at 1 and counts micro-batches. It may
            assign to buffers, and to parameters that are not trained: reads after the assignment, and the next step,
            see the new value. `None` is for inference: the result holds the model on the device for the functions that
            its `attach` compiles, and has no step.
        optimizer: One of `tg.optim`. Or one for each part of the model, by its path, and `None` for a part that is not
            trained: `{"actor": tg.optim.adam(1e-4), "critic": tg.optim.sgd(1e-2), "target": None}`. Or `None`: then a
            step runs the loss and its assignments without a derivative, as if everything were frozen.
        inputs: A shape (f32) or a `tg.spec` for each input of the loss, by name, or `tg.like(batch)` for those of an
            example; `None` without a loss. An input may be a tree: a dict or a dataclass of `tg.spec`. An extent that
            varies from batch to batch is a `tg.dim`.
        device: "auto" for a hardware adapter if there is one, else the CPU, as reported by the log and the training's
            `repr`; "wgpu" for any adapter; "cpu" for native code; "numpy" for the reference.
        seed: Seeds the initialization and the key of each step.
        checks: Whether to check the inputs of every call, and raise an `InputError` before anything runs: for NaN and
            infinities, and for indices out of range, such as a token without an embedding, if an index is an input or
            derived from inputs by casts, comparisons, arithmetic, slices and the like. Inputs that are the labels of a
            loss are always checked.
        check_numerics: Whether to check the loss, the parameters and the optimizer's state after every step. A step
            that produces a NaN or an infinity is rolled back, and a `DivergenceError` names the line that produced it,
            in `tg.fit` too, regardless of its `on_nan`; see `Training.blame`. Each step then reads all of the state
            twice, and waits for it.
        memory_limit: The most bytes that parameters, state, inputs, outputs and all temporaries may take together on
            the device. If a step needs more, it runs in an order that needs less, and parts of the loss are recomputed
            for the derivative instead of being kept; `stats()["memory_limit"]` reports what that costs. Numpy has no
            memory plan, so the option is an error there.
        tune: Whether to measure schedules of the kernels that take the most time, or for how many seconds at most
            (True is 60). The best are kept on disk per device, and found by the next compilation. On numpy there is
            nothing to tune.
        accumulate: The number of calls of `step` that gradients are accumulated over. The inputs of each call are a
            micro-batch; the last call of a step updates the parameters by the mean of the gradients. This takes the
            memory of one micro-batch and one more copy of the trained parameters. If the loss is a mean, it equals a
            step on one batch of all their examples, except for rounding and for whatever depends on the batch as a
            whole, such as batch norm, whose statistics are computed and updated for each micro-batch.
        precision: "f32"; or "f16" to store activations between kernels as half floats, saved ones included. Everything
            is computed in f32, and parameters, optimizer state, inputs, outputs, statistics, losses and cotangents are
            stored in f32. Values beyond 65504 are stored as infinities. "bf16" stores activations and their cotangents
            with the range of f32, on numpy and the CPU. "bf16-products" stores everything in f32, and rounds only the
            factors of matrix products of at least 48 rows and columns, and of convolutions of as many channels and
            positions; their sums are f32. Attached functions do the same.
        loss_scale: With "f16", stores cotangents of activations as half floats too, multiplied by this power of two to
            prevent underflow, and divided by it when loaded; gradients of parameters stay f32. Too large a scale
            produces infinities, which show up in the parameters.
        edit_passes: Called with the list of passes on `tg`, and again with the list of passes below it, which only
            devices have; returns the list to run.
        verify: Whether the compiler checks itself: the module is run at its own level after each pass, on sampled
            values, and a pass that changes a result, or a derivative that disagrees with finite differences, is a
            `NumericsError`. On wgpu and cpu each kernel on the device is also compared with numpy, and the first that
            differs is named; then it is proved, for all data, that no access leaves its buffer and no two invocations
            collide, as far as that can be proved: the table is logged at level `INFO`. This takes several times as
            long as compiling. Attached functions do the same.
        timeout: For how many seconds to wait for the device at a time, when a result is read and everything submitted
            before it must finish. If that takes longer, a `DeviceError` is raised, and this process can't use the
            device any more, since running work can't be stopped. `None` waits indefinitely. On numpy and cpu nothing
            waits, so it is an error there, unless "auto" has chosen them. Attached functions do the same.
        on_device_lost: What happens when the device is lost: the driver was reset, or the GPU removed. "raise" raises a
            `DeviceLostError`. "restart" continues on a new device without recompiling: all steps since the last
            snapshot of parameters and state are replayed with their inputs. No step is lost, unread results stay
            available, and everything is bit-identical to an uninterrupted run; a `DeviceLostWarning` reports what
            happened. Snapshots and the inputs since are kept in host memory. Attached functions do the same. Numpy and
            cpu can't be lost, so "restart" is an error there, unless "auto" has chosen them.
        snapshot_every: With "restart", after how many calls of `step` a snapshot is taken, which waits for the device
            and reads the state; one is also taken when the inputs since the last reach 256 MiB. Whatever reads all of
            the state, such as `state_dict` and checkpoints, also counts as one.
        group: The processes that run each step together, as returned by `tg.distributed.group()`; each has a part of
            the batch, and all have the same parameters. `inputs` are then those of the whole batch, whose leading axes
            are divided equally among the processes, and a step computes what one process would with all of it, except
            for rounding: batch statistics, norms, random numbers and metrics are those of the whole batch. `step` takes
            this process's part, or the whole batch, from which it takes its part. Every process must call the same
            functions in the same order. A group of one is the same as none.
        shard: With "optimizer", each process of the group keeps a part of the optimizer's state, and updates that part
            of the parameters.
        replicated: The inputs that every process of the group receives whole.

    Returns:
        The training, which runs the step; see `Training`.

    Raises:
        TraceError: This is inside a trace, or the loss does something that can't be traced.
        ParameterError: The model has no parameters, one is in no part or in two, or the loss adds or removes
            parameters.
        InputError: The loss takes arguments other than `inputs`.
        ShapeError, DTypeError: Shapes or dtypes in the loss don't match, or its result is not a float scalar.
        OptionError: A setting is out of range, or there are inputs or an optimizer without a loss.
        NoAdapterError: There is no adapter for device "wgpu".
        ProgramError, TargetError: The device can't run the program.
        GroupError: The processes of the group have not compiled the same program, or one did not join.
        NumericsError: With `verify`, a pass changes a value, a kernel's result on the device differs, or its accesses
            may leave their buffers or collide; says which, where and by how much.

    Example:
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> first, second = (float(training.step(x=np.ones((4, 3)))) for _ in range(2))
        >>> second < first
        True
    """
    refuse_inside_trace("tg.compile")
    options = StepOptions(
        device=device,
        seed=seed,
        checks=checks,
        check_numerics=check_numerics,
        memory_limit=memory_limit,
        tune=tune,
        accumulate=accumulate,
        precision=precision,
        loss_scale=loss_scale,
        edit_passes=edit_passes,
        verify=verify,
        timeout=timeout,
        on_device_lost=on_device_lost,
        snapshot_every=snapshot_every,
        group=group,
        shard=shard,
        replicated=replicated,
    )
    options.check()
    if loss is None:
        for name, argument in (("optimizer", optimizer), ("inputs", inputs or None)):
            if argument is not None:
                raise OptionError(f"tg.compile: {name} is for a step, which needs a loss")
    elif inputs is None:
        raise OptionError("tg.compile: the loss needs inputs, a shape for each by name")
    loss, inputs = (no_loss, {}) if loss is None else (loss, inputs)
    phases = Phases()
    return _built(_traced(model, loss, optimizer, inputs, options, phases), options, phases)


@dataclass(frozen=True)
class _Traced:
    """A traced step.

    Attributes:
        source: What it was traced from.
        function: The loss.
        key: The key of the initialization.
    """

    source: Source
    function: FuncOp
    key: Tensor


def _traced(
    model: Any, loss: Callable[..., Any], optimizer: Any, inputs: Any, options: StepOptions, phases: Phases
) -> _Traced:
    """Checks the arguments, and returns the traced step of a model and a loss."""
    declared = declared_model(model)
    parameters = parameters_of(declared, trained=optimizer is not None)
    parts = parts_of(optimizer, parameters)
    if options.micro_batches > 1 and not parts.all:
        raise OptionError(
            f"accumulate={options.accumulate} is for a program that trains; this one has nothing to train"
        )
    key = random.key(options.seed)
    with_key = takes_key(loss) and isinstance(inputs, Mapping) and "key" not in inputs
    specs, nesting = nested_specs({**inputs, "key": spec(2, "u32")} if with_key else inputs)
    check_paddings(specs, options.group is not None)
    distribution = checked_distribution(options.group, options.shard, options.replicated, specs, with_key)
    if distribution is not None:
        options.check_alone()
    untrained = parameters.keys() - {*parts.trained}
    name = function_name(loss)
    with phases.measure("trace"), while_tracing("tg.compile", options.rounding), warning_of_draws(name):
        traced = trace_model(declared, nesting.function(loss), specs, checked_loss, "kept", untrained)
    losses = losses_of(traced.results.loss, parts, name)
    _warn_of_unused(traced.function, losses, name)
    warn_of_pairs(traced.function, name)
    with phases.measure("trace"):
        warn_of_padding(traced.function, specs, name)
    source = Source(
        declared,
        loss,
        inputs,
        specs,
        nesting,
        with_key,
        traced.results,
        traced.ranges,
        losses,
        frozenset(untrained),
        parts,
        optimizer,
        options.keywords(),
        compile,
        distribution,
    )
    return _Traced(source, traced.function, key)


def _built(traced: _Traced, options: StepOptions, phases: Phases) -> Training[Any]:
    """Returns the training of a traced step, compiled and loaded on its device."""
    source = traced.source
    with phases.measure("load"):
        chosen = find_device(options.device)
    options.check_device(chosen)
    micro, distribution = options.micro_batches, source.distribution
    recipe = step_recipe(traced.function, source, options, chosen, phases)
    compilation = compile_recipe(recipe, phases)
    executable = compilation.executable
    with phases.measure("initialize"):
        agree = None
        if distribution is not None:
            agree = partial(distribution.agree, recipe.traced, executable, _agreed(options, source.parts))
        _initialize(executable, declarations(source.model), traced.key, agree)
    accumulation = None if micro == 1 else compiled_accumulation(compilation, source.losses, micro, distribution)
    return Training(source, StepProgram(source.inputs, source.ranges, compilation, accumulation))


def _initialize(
    executable: Executable,
    declared: Mapping[str, Leaf],
    key: random.Key,
    agree: Callable[[Mapping[str, np.ndarray]], None] | None,
) -> None:
    """Initializes parameters and buffers.

    Args:
        executable: The executable that receives them.
        declared: Their declarations, by path.
        key: The key they are sampled with.
        agree: Compares them with those of other processes.
    """
    if agree is not None:
        values = drawn(declared, key)
        agree(values)
        executable.write(values)
        return
    size = 0
    for path, value in drawing(declared, key):  # one at a time, to limit peak memory
        executable.write({path: value})
        size += value.nbytes
    return_freed_memory(size)


def _agreed(options: StepOptions, parts: Parts) -> dict[str, object]:
    """Returns the options that all processes of a group must agree on, by their names in error messages."""
    settings = {
        label: (host_setting.value, None if host_setting.schedule is None else host_setting.schedule.name)
        for label, host_setting in parts.host_settings().items()
    }
    precision = options.precision, options.loss_scale
    chosen = {"seed": options.seed, "accumulate": options.micro_batches, "precision": precision}
    return {**chosen, "the settings": settings}


def _warn_of_unused(function: FuncOp, losses: Losses, name: str) -> None:
    """Warns about parameters that a loss is to train but does not depend on."""
    for result, paths in enumerate(losses):
        places = {slot.name: place for place, slot in enumerate(arguments_of(function)) if slot.name in {*paths}}
        for path in unreached(function, places, result):
            message = f"{name}() does not depend on the parameter {path!r}, which is to be trained"
            warn_user(f"{user_line()}: {message}", UnusedParameterWarning)
