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
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.conversion import to_numpy
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.group.group import Group, agree
from tensorgrad.runtime.inputs import check_inputs
from tensorgrad.runtime.program import Collective, runs
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.location import user_line

_log = logging.getLogger("tensorgrad.group")


@dataclass(frozen=True)
class Distribution:
    """How a step is divided among processes.

    Attributes:
        group: The processes.
        shard: What is sharded among the processes besides the batch; nothing, or "optimizer".
        replicated: The inputs that each process receives whole.
        inputs: The inputs of the step on the whole batch, by name.
    """

    group: Group
    shard: str | None
    replicated: tuple[str, ...]
    inputs: Mapping[str, Spec]

    @property
    def cut(self) -> tuple[str, ...]:
        """The inputs that are divided among the processes."""
        return tuple(name for name, spec in self.inputs.items() if spec.shape and name not in self.replicated)

    def passes(self, function: str) -> list[ModulePass]:
        """Returns the passes that make the step of this process."""
        group = self.group
        return [
            DistributePass(group.size, group.rank, self.shard, self.replicated, function),
            BucketCollectivesPass(function=function),
        ]

    def of_inputs(self, inputs: Mapping[str, Spec]) -> Distribution | None:
        """Returns how another function of the model is divided; `None` if an input can't be divided equally."""
        distribution = replace(
            self, shard=None, inputs=inputs, replicated=tuple(name for name in self.replicated if name in inputs)
        )
        extents = [inputs[name].shape[0] for name in distribution.cut]
        return None if any(extent == 0 or extent % self.group.size for extent in extents) else distribution

    def own(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns this process's part of inputs: whole ones are sliced, parts are returned as they are.

        Raises:
            InputError: An input is neither the whole nor a part.
        """
        return {name: self._own(name, value) if name in self.cut else value for name, value in inputs.items()}

    def agree(
        self,
        traced: ModuleOp,
        executable: Executable,
        settings: Mapping[str, object],
        values: Mapping[str, np.ndarray],
    ) -> None:
        """Checks that all processes have compiled the same step, and start from the same values.

        If they compile for different processors, the first one logs it, since rounding may differ then.

        Args:
            traced: The traced step, with the updates of the optimizer.
            executable: The executable it was loaded as.
            settings: Other options that the processes have to agree on, by name.
            values: The initial parameters and buffers.

        Raises:
            GroupError: They differ; every process raises the same error, which names the first difference.
        """
        steps = runs(executable.program.plan) if isinstance(executable, ProgramExecutable) else ()
        exchanges = [step for step, _ in steps if isinstance(step, Collective)]
        agree(
            self.group,
            {
                "the version of tensorgrad": version("tensorgrad-xdsl"),
                "the inputs": {name: (spec.shape, str(spec.dtype)) for name, spec in self.inputs.items()},
                "the parameters": {name: (value.shape, str(value.dtype)) for name, value in values.items()},
                "shard and replicated": (self.shard, self.replicated),
                **settings,
                "the loss, the model or the optimizer": hashlib.sha256(str(traced).encode()).hexdigest()[:16],
                "the first values of the parameters": _digest(values),
                "the exchanges of a step": [
                    (exchange.kind, exchange.dtype, [p.count for p in exchange.parts]) for exchange in exchanges
                ],
            },
        )
        names = self._targets(executable)
        if self.group.rank == 0 and len(set(names)) > 1:
            listed = "; ".join(f"rank {rank}: {target}" for rank, target in enumerate(names))
            _log.warning("processes compile for different processors, whose roundings may differ: %s", listed)

    def agree_on_state(self, executable: Executable, parameters: Sequence[str], facts: Mapping[str, object]) -> None:
        """Checks that all processes go on from the same state, in which a program may have set another in only one.

        Where roundings may differ, parameters may too, and are not compared.

        Args:
            executable: The executable of the step.
            parameters: The names of the parameters.
            facts: What else has to be equal, by name.

        Raises:
            GroupError: Something differs; every process raises the same error, which names the first difference.
        """
        if len(set(self._targets(executable))) == 1:
            facts = {**facts, "the values of the parameters": _digest(executable.read(parameters))}
        agree(self.group, facts)

    def _targets(self, executable: Executable) -> list[str]:
        """Returns what each process compiles for."""
        name = executable.device.target.name if isinstance(executable, ProgramExecutable) else ""
        return self.group.gather_objects(name, label="what processes compile for")

    def _own(self, name: str, value: Any) -> Any:
        array = value if hasattr(value, "shape") else to_numpy(value, f"input {name!r}")
        shape, whole, part = tuple(array.shape), self.inputs[name].shape, self._part(name)
        if shape == whole:
            return array[self.group.rank * part[0] : (self.group.rank + 1) * part[0]]
        if shape != part:
            raise InputError(
                f"input {name!r} has shape {shape}; a group of {self.group.size} processes takes the "
                f"whole batch, {whole}, or this process's part of it, {part}"
            )
        return array

    def _part(self, name: str) -> tuple[int, ...]:
        """Returns the shape of this process's part of an input."""
        first, *others = self.inputs[name].shape
        return (first // self.group.size, *others)

    def whole(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns inputs with the whole of what is divided among the processes.

        Raises:
            InputError: An input is neither the whole nor a part.
            GroupError: Another process did not join.
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
    """Returns the passes that turn a function into the one this process runs; none without a group."""
    return [] if distribution is None else distribution.passes(function)


def refuse_to_save(distribution: Distribution | None, what: str) -> None:
    """Requires a program to run in a single process.

    Raises:
        OptionError: It runs in a group.
    """
    if distribution is not None:
        raise OptionError(
            f"{what}: the program is for one of {distribution.group.size} processes, and of no use "
            "without the others; save from training.replace_model(group=None), which every process has to call"
        )


def checked_distribution(
    group: object, shard: object, replicated: object, inputs: Mapping[str, Spec], key: bool
) -> Distribution | None:
    """Returns how a step is divided, from the caller's options; `None` without a group.

    Args:
        group: The processes; or `None`.
        shard: "optimizer" or `None`.
        replicated: Names of inputs.
        inputs: The inputs of the step.
        key: Whether these include the step's key, which is the same for all processes.

    Raises:
        OptionError: An option is out of range, or an input can't be divided equally.
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
            raise OptionError(f"{where}: replicated: there is no input {name!r}; the inputs are {', '.join(inputs)}")
    if group is None or group.size == 1:
        return None
    distribution = Distribution(group, OPTIMIZER if shard else None, (*names, *(("key",) if key else ())), inputs)
    for name in distribution.cut:
        if inputs[name].shape[0] % group.size:
            raise OptionError(
                f"{where}: input {name!r} of shape {inputs[name].shape} is the batch of all {group.size} processes, "
                f"but {inputs[name].shape[0]} examples are not divisible by {group.size}; "
                "an input that every process has whole is named in `replicated`"
            )
    return distribution


def _digest(values: Mapping[str, np.ndarray]) -> str:
    """Returns a hash of values."""
    digest = hashlib.sha256()
    for name in sorted(values):
        digest.update(np.ascontiguousarray(values[name]).tobytes())
    return digest.hexdigest()[:16]
