"""Programs as tensors and their values: what is written for runtimes that have compilers of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.driver.compiling.compilation import Compilation
from tensorgrad.driver.compiling.recipe import passes_on_tensors
from tensorgrad.driver.compiling.running import Phases, run_passes
from tensorgrad.driver.handles.compiled import Inference, structure_of
from tensorgrad.driver.handles.training import Training
from tensorgrad.driver.stepping.distribution import refuse_to_save
from tensorgrad.errors import OptionError
from tensorgrad.passes.tensors.drop_unread_arguments import DropUnreadArgumentsPass
from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.passes.tensors.widen_bf16 import WidenBf16Pass
from tensorgrad.runtime.saved import FUNCTION, Host
from tensorgrad.runtime.target import CPU
from tensorgrad.tracing.location import user_line

FOR_KERNELS = ("outline-attention", "pack-updates")
"""The passes on tensors that arrange a program for our own kernels."""


@dataclass(frozen=True)
class Portable:
    """A program on tensors.

    Attributes:
        name: Its name.
        module: The module, with one function, on `tg` without calls: as traced, or with derivatives and updates. Of
            the parameters, state and settings it takes those that it reads.
        values: The parameters and the state, by name.
        host: What the host computes for it, and the structure of its results.
    """

    name: str
    module: ModuleOp
    values: Mapping[str, np.ndarray]
    host: Host


def portable(handle: Training[Any] | Inference[Any], what: str) -> Portable:
    """Returns the step of a training, or a function for the shapes of its last call or its declared ones.

    Args:
        handle: The training or function.
        what: The function's name in error messages.

    Raises:
        InputError: The function has neither been called nor has declared inputs.
        OptionError: It runs in a group of processes, or a step takes several micro-batches.
        ProgramError: A schedule is a Python function, or the results can't be named.
    """
    if isinstance(handle, Training):
        refuse_to_save(handle._source.distribution, what)
        if handle.accumulate > 1:
            raise OptionError(
                f"{what}: a step of {handle.accumulate} micro-batches is two programs; "
                "training.replace_model(accumulate=1) is the same training as one"
            )
        return _of(handle._compilation, handle._host_state(f"{user_line()}: {what}"))
    latest = handle._latest(what)
    refuse_to_save(latest._distribution, what)
    return _of(latest._compilation, Host(FUNCTION, structure_of(latest._tree)))


def without_bf16(program: Portable) -> Portable:
    """Returns a program that computes in f32 what the program computes in bf16, for runtimes that lack such ops."""
    module = program.module.clone()
    run_passes(module, [WidenBf16Pass(target=CPU)], Phases())
    return replace(program, module=module)


def _of(compilation: Compilation, host: Host) -> Portable:
    recipe = compilation.recipe
    passes = [pass_ for pass_ in passes_on_tensors(recipe, compilation.choice) if pass_.name not in FOR_KERNELS]
    module = recipe.traced.clone()
    run_passes(module, [*passes, InlineCallsPass(), SimplifyPass(), DropUnreadArgumentsPass()], Phases())
    return Portable(recipe.name, module, compilation.executable.read(), host)
