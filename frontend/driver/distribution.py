"""A step that a group of processes runs together, each on its part of the batch."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tensorgrad.errors import InputError, OptionError
from tensorgrad.passes.tensors.bucket_collectives import BucketCollectivesPass
from tensorgrad.passes.tensors.distribute import DistributePass
from tensorgrad.passes.tensors.distribute.distribute_pass import OPTIMIZER
from tensorgrad.runtime.backend import Executable, check_inputs
from tensorgrad.runtime.conversion import to_numpy
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.group.group import Group, agree
from tensorgrad.runtime.program import Collective, runs
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.location import user_line

_log = logging.getLogger("tensorgrad.group")

DISTRIBUTING = (DistributePass, BucketCollectivesPass)
"""The passes that make the step of one process of that of a whole batch."""


@dataclass(frozen=True)
class Distribution:
    """How a step is divided among processes.

    Attributes:
        group: The processes.
        shard: What each process keeps a part of, besides the batch; nothing, or "optimizer".
        replicated: The inputs that each process is given whole.
        inputs: What the step takes as a whole, by name.
    """

    group: Group
    shard: str | None
    replicated: tuple[str, ...]
    inputs: Mapping[str, Spec]

    @property
    def cut(self) -> tuple[str, ...]:
        """The inputs of which each process has a part."""
        return tuple(name for name, one in self.inputs.items() if one.shape and name not in self.replicated)

    def passes(self, function: str) -> list[ModulePass]:
        """Returns the passes that make the step of this process."""
        group = self.group
        return [
            DistributePass(group.size, group.rank, self.shard, self.replicated, function),
            BucketCollectivesPass(function=function),
        ]

    def of_inputs(self, inputs: Mapping[str, Spec]) -> Distribution | None:
        """Returns how another function of the model is divided; `None` where an input has no equal parts."""
        found = replace(
            self, shard=None, inputs=inputs, replicated=tuple(name for name in self.replicated if name in inputs)
        )
        extents = [inputs[name].shape[0] for name in found.cut]
        return None if any(extent == 0 or extent % self.group.size for extent in extents) else found

    def own(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns this process's part of inputs: those that are given as a whole are cut, others are parts already.

        Raises:
            InputError: One is neither the whole nor a part.
        """
        return {name: self._own(name, value) if name in self.cut else value for name, value in inputs.items()}

    def agree(
        self,
        traced: ModuleOp,
        executable: Executable,
        settings: Mapping[str, object],
        values: Mapping[str, np.ndarray],
    ) -> None:
        """Checks that all processes have compiled the same step, and begin with the same values.

        Where they compile for different processors, the first one logs that: roundings may differ then.

        Args:
            traced: The step as it was traced, with the updates of the optimizer.
            executable: What it was loaded as.
            settings: What else processes have to agree on, by name.
            values: The parameters and buffers that it begins with.

        Raises:
            GroupError: They have not: the same error in every process, which names the first difference.
        """
        steps = runs(executable.program.plan) if isinstance(executable, ProgramExecutable) else ()
        exchanges = [step for step, _ in steps if isinstance(step, Collective)]
        first = hashlib.sha256()
        for name in sorted(values):
            first.update(np.ascontiguousarray(values[name]).tobytes())
        agree(
            self.group,
            {
                "the version of tensorgrad": version("tensorgrad-xdsl"),
                "the inputs": {name: (one.shape, str(one.dtype)) for name, one in self.inputs.items()},
                "the parameters": {name: (value.shape, str(value.dtype)) for name, value in values.items()},
                "shard and replicated": (self.shard, self.replicated),
                **settings,
                "the loss, the model or the optimizer": hashlib.sha256(str(traced).encode()).hexdigest()[:16],
                "the first values of the parameters": first.hexdigest()[:16],
                "the exchanges of a step": [(one.kind, one.dtype, [p.count for p in one.parts]) for one in exchanges],
            },
        )
        if isinstance(executable, ProgramExecutable):
            self._log_targets(executable.device.target.name)

    def _log_targets(self, name: str) -> None:
        names = self.group.gather_objects(name, label="what processes compile for")
        if self.group.rank == 0 and len(set(names)) > 1:
            listed = "; ".join(f"rank {rank}: {one}" for rank, one in enumerate(names))
            _log.warning("processes compile for different processors, whose roundings may differ: %s", listed)

    def _own(self, name: str, value: Any) -> Any:
        array = value if hasattr(value, "shape") else to_numpy(value, f"input {name!r}")
        shape, whole, part = tuple(array.shape), self.inputs[name].shape, self._part(name)
        if shape == whole:
            return array[self.group.rank * part[0] : (self.group.rank + 1) * part[0]]
        if shape != part:
            raise InputError(
                f"{user_line()}: input {name!r} has shape {shape}; a group of {self.group.size} processes takes the "
                f"whole batch, {whole}, or this process's part of it, {part}"
            )
        return array

    def _part(self, name: str) -> tuple[int, ...]:
        """Returns the shape that this process has of an input."""
        first, *others = self.inputs[name].shape
        return (first // self.group.size, *others)

    def whole(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns inputs with all of what each process has a part of.

        Raises:
            InputError: One is neither the whole nor a part.
            GroupError: Another process did not come.
        """
        own = self.own(inputs)
        shapes = {
            name: (self.inputs[name].shape[0] // self.group.size, *self.inputs[name].shape[1:]) for name in self.cut
        }
        slots = {name: slot_of(name, Spec(shape, self.inputs[name].dtype)) for name, shape in shapes.items()}
        parts = check_inputs(slots, {name: own[name] for name in self.cut if name in own}, partial=True)
        gathered = {
            name: self.group.all_gather(np.ascontiguousarray(part), label=f"input {name!r}")
            for name, part in sorted(parts.items())
        }
        return {**own, **gathered}


def passes_of(distribution: Distribution | None, function: str) -> list[ModulePass]:
    """Returns the passes that make of a function what this process runs; none for a process on its own."""
    return [] if distribution is None else distribution.passes(function)


def refuse_to_save(distribution: Distribution | None, what: str) -> None:
    """Requires a program to be for a process on its own.

    Raises:
        OptionError: It is for a group.
    """
    if distribution is not None:
        raise OptionError(
            f"{user_line()}: {what}: the program is for one of {distribution.group.size} processes, and of no use "
            "without the others; save from training.replace_model(group=None), which every process has to call"
        )


def checked_distribution(
    group: object, shard: object, replicated: object, inputs: Mapping[str, Spec], key: bool
) -> Distribution | None:
    """Returns how a step is divided, from what a caller said; `None` for a process on its own.

    Args:
        group: The processes; or `None`.
        shard: "optimizer" or `None`.
        replicated: Names of inputs.
        inputs: What the step takes.
        key: Whether the step's key is among them, which is the same for all.

    Raises:
        OptionError: One is out of range; or an input has no equal parts.
    """
    where = user_line()
    if group is not None and not isinstance(group, Group):
        raise OptionError(f"{where}: group must be what tg.distributed.group() gives, or None, got {group!r}")
    if shard not in (None, OPTIMIZER):
        raise OptionError(f"{where}: shard must be {OPTIMIZER!r} or None, got {shard!r}")
    if isinstance(replicated, str) or not isinstance(replicated, Sequence):
        raise OptionError(f"{where}: replicated must be names of inputs, got {replicated!r}")
    names = tuple(str(name) for name in replicated)
    for name in names:
        if name not in inputs:
            raise OptionError(f"{where}: replicated: there is no input {name!r}; there are {', '.join(inputs)}")
    if group is None or group.size == 1:
        return None
    found = Distribution(group, OPTIMIZER if shard else None, (*names, *(("key",) if key else ())), inputs)
    for name in found.cut:
        if inputs[name].shape[0] % group.size:
            raise OptionError(
                f"{where}: input {name!r} of shape {inputs[name].shape} is the batch of all {group.size} processes, "
                f"but {inputs[name].shape[0]} examples have no {group.size} equal parts; "
                "an input that every process has whole is named in `replicated`"
            )
    return found
