"""Executables that survive the loss of their device: what they have done since a snapshot is done again on another.

Parameters and state are on the device alone, and are lost with it. So the host keeps a copy of them, a snapshot, and
what every step since then was given. That is enough for the same bits: a program has no other inputs.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import wgpu

from tensorgrad.runtime.backend import OutputHandle, OutputRing, RingSlot, check_inputs
from tensorgrad.runtime.errors import DeviceLostError, DeviceLostWarning, user_frame
from tensorgrad.runtime.program import PERSISTENT_ROLES, Collective, Copy, Dispatch, Program, TensorSlot, Wait, runs
from tensorgrad.runtime.webgpu.device import LOST, WebGPUDevice
from tensorgrad.runtime.webgpu.encoding import Segment
from tensorgrad.runtime.webgpu.executable import WebGPUExecutable
from tensorgrad.runtime.webgpu.patient_device import PatientDevice

MOST_KEPT = 1 << 28
"""A snapshot is also taken when what was given since the last one takes more bytes."""

Result = TypeVar("Result")
Redone = list[tuple[OutputHandle, OutputHandle]]
"""Outputs that someone waits for, each with the one that has its value now."""


class Call(Protocol):
    """What an executable has done, to be done again."""

    @property
    def bytes(self) -> int:
        """What it takes to remember."""
        ...

    @property
    def changes(self) -> bool:
        """Whether it changes parameters or state."""
        ...

    def pending(self) -> list[OutputHandle]:
        """Returns the outputs that someone may still look at and that are on the device alone."""
        ...

    def again(self) -> Redone:
        """Does it again."""
        ...


@dataclass(frozen=True)
class Step:
    """A step that has run. It does not keep its executable, in whose journal it is."""

    executable: weakref.ref[RestartingExecutable]
    inputs: Mapping[str, np.ndarray]
    scalars: Mapping[str, float]
    outputs: Sequence[weakref.ref[OutputHandle]]
    changes: bool
    bytes: int

    def pending(self) -> list[OutputHandle]:
        """See `Call`."""
        alive = (reference() for reference in self.outputs)
        return [handle for handle in alive if handle is not None and handle.is_pending]

    def again(self) -> Redone:
        """See `Call`."""
        executable, waiting = self.executable(), self.pending()
        if executable is None or not (self.changes or waiting):
            return []
        outputs = WebGPUExecutable.step(executable, self.inputs, self.scalars)
        return [(handle, outputs[handle.name]) for handle in waiting]


@dataclass(frozen=True)
class Write:
    """Parameters and state that were set."""

    executable: weakref.ref[RestartingExecutable]
    values: Mapping[str, np.ndarray]
    bytes: int
    changes: bool = True

    def pending(self) -> list[OutputHandle]:
        """See `Call`."""
        return []

    def again(self) -> Redone:
        """See `Call`."""
        executable = self.executable()
        if executable is not None:
            WebGPUExecutable.write(executable, self.values)
        return []


@dataclass
class Journal:
    """What brings executables back that use the same parameters and state.

    Attributes:
        every: After how many steps a snapshot is taken.
        members: The executables; the first has all of the parameters and state.
        snapshot: Parameters and state; what is missing is zero.
        calls: What was done since, in order.
        steps: How many of them are steps that change something.
        passing: How many change nothing, and stay only as long as someone waits for their outputs.
        most_passing: More of those than this are searched for what nobody waits for any more.
        bytes: What they take to remember.
        restarting: Whether it is being done again.
    """

    every: int
    members: list[weakref.ref[RestartingExecutable]] = field(default_factory=list)
    snapshot: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    calls: list[Call] = field(default_factory=list[Call])
    steps: int = 0
    passing: int = 0
    most_passing: int = 0
    bytes: int = 0
    restarting: bool = False

    @property
    def is_due(self) -> bool:
        """Whether the next step is to take a snapshot first."""
        return self.steps >= self.every or self.bytes > MOST_KEPT

    def add(self, call: Call) -> None:
        """Remembers what was done; what changed nothing, only as long as someone waits for its outputs.

        These are searched only when there are more than twice as many as were left the last time, so that many unread
        results cost each call little.
        """
        if isinstance(call, Write) and not self.calls:
            self.snapshot |= call.values
            return
        if self.passing > self.most_passing:
            self.calls = [one for one in self.calls if one.changes or one.pending()]
            self.passing = sum(not one.changes for one in self.calls)
            self.most_passing = 2 * self.passing
            self.bytes = sum(one.bytes for one in self.calls)
        self.calls.append(call)
        self.steps += call.changes and isinstance(call, Step)
        self.passing += not call.changes
        self.bytes += call.bytes

    def deliver(self) -> None:
        """Reads every output that someone may still look at."""
        for call in self.calls:
            for handle in call.pending():
                handle.numpy()

    def renew(self, values: Mapping[str, np.ndarray]) -> None:
        """Takes parameters and state as the snapshot, all of them, once every output is delivered."""
        self.snapshot, self.calls = dict(values), []
        self.steps = self.passing = self.most_passing = self.bytes = 0

    def restart(self, loss: DeviceLostError) -> None:
        """Brings all executables to where they were, on another device.

        Raises:
            DeviceLostError: That was lost, too, or is another kind of device. The next call tries again.
            DeviceError: There is no device any more, or what it reported.

        Warns:
            DeviceLostWarning: Always, at last.
        """
        if self.restarting:
            raise loss
        self.restarting = True
        try:
            name = self._restarted()
        except DeviceLostError as again:
            raise DeviceLostError(
                f"{again}\nThat was while the {self.steps} steps since the last snapshot were repeated, because {loss}"
            ) from loss
        finally:
            self.restarting = False
        reason, frame = " ".join(str(loss).removesuffix(LOST).split()), user_frame()
        message = (
            f"the device was lost: {reason}. The program goes on on {name}: from its last snapshot {self.steps} steps "
            "were repeated, and none is lost"
        )
        file, line = ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
        warnings.warn_explicit(message, DeviceLostWarning, file, line)

    def _restarted(self) -> str:
        """Does everything again; the device's name."""
        members = [one for one in (reference() for reference in self.members) if one is not None]
        first = members[0]
        device = first.device.successor()
        for member in members:
            member.move(device)
        WebGPUExecutable.write(first, self.snapshot)
        redone = [pair for call in self.calls for pair in call.again()]
        for old, new in redone:
            old.deliver(new.numpy())
        first.wait()
        return device.info.name


class RestartingRing(OutputRing[wgpu.GPUBuffer]):
    """Outputs that are there even if the device was lost before someone looked at them."""

    def __init__(self, program: Program, device: PatientDevice, journal: Journal):
        super().__init__(program, device)
        self._journal = journal

    def _fetch(self, slot: RingSlot[wgpu.GPUBuffer], tensor: TensorSlot) -> np.ndarray:
        try:
            return super()._fetch(slot, tensor)
        except DeviceLostError as loss:
            return self._again(slot, tensor, loss)

    async def _fetch_async(self, slot: RingSlot[wgpu.GPUBuffer], tensor: TensorSlot) -> np.ndarray:
        try:
            return await super()._fetch_async(slot, tensor)
        except DeviceLostError as loss:
            return self._again(slot, tensor, loss)

    def _again(self, slot: RingSlot[wgpu.GPUBuffer], tensor: TensorSlot, loss: DeviceLostError) -> np.ndarray:
        """Returns an output's value, which doing everything again delivers."""
        alive = [(reference(), one) for reference, one in slot.handles]
        (handle,) = (handle for handle, one in alive if handle is not None and one is tensor)
        if handle.is_pending:  # someone else may have restarted in the meantime
            self._journal.restart(loss)
        return handle.numpy()


class RestartingExecutable(WebGPUExecutable):
    """A `WebGPUExecutable` that goes on on another device when its own is lost, with the same values.

    Args:
        program, in_turn, timeout: See `WebGPUExecutable`.
        device: Where, unless it shares.
        share: A restarting executable whose parameters and state this one uses too; both go on together.
        snapshot_every: After how many steps the host copies parameters and state from the device; that of `share`, if
            there is one.

    Raises:
        ProgramError, TargetError, DeviceError: See `WebGPUExecutable`.
    """

    def __init__(
        self,
        program: Program,
        device: WebGPUDevice,
        share: RestartingExecutable | None = None,
        in_turn: bool = False,
        timeout: float | None = None,
        snapshot_every: int = 1,
    ):
        self._share, self._in_turn = share, in_turn
        self._journal = Journal(snapshot_every) if share is None else share._journal
        self._changes = _changes_state(program)
        self._prepared: tuple[dict[str, np.ndarray], dict[str, float]] | None = None
        load = super().__init__
        if share is not None:
            self._surviving(lambda: load(program, share.device, share, in_turn, timeout))
        else:
            try:
                load(program, device, None, in_turn, timeout)
            except DeviceLostError:  # nothing is on it yet that could be lost
                load(program, device.successor(), None, in_turn, timeout)
        self._journal.members.append(weakref.ref(self))

    def _new_ring(self, device: PatientDevice) -> OutputRing[wgpu.GPUBuffer]:
        return RestartingRing(self.program, device, self._journal)

    def move(self, device: WebGPUDevice) -> None:
        """Takes a place on another device, with zeros for parameters and state, or those of what it shares with."""
        self.device = device
        self._given = {}
        self._load(self._share, self._in_turn)

    def wait(self) -> None:
        """Waits until everything has run; see `WebGPUDevice.wait`."""
        self._within("waiting for", self.device.wait)

    def _surviving(self, call: Callable[[], Result]) -> Result:
        """Calls what talks to the device, twice if it was lost."""
        try:
            return call()
        except DeviceLostError as loss:
            self._journal.restart(loss)
        return call()

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Collection[str] = ()
    ) -> dict[str, OutputHandle]:
        """Runs the program once; see `WebGPUExecutable.step`. Inputs are copied, but for constant ones.

        Raises:
            InputError: Something is missing, unknown, or of the wrong shape or dtype; nothing has changed.
            DeviceError: What the device reported; it was lost, and so was the one in its place.

        Warns:
            DeviceLostWarning: The device was lost, and the program went on on another.
        """
        given = self._given_to(inputs, constant)
        run = super().step
        outputs = self._surviving(lambda: run(given, scalars, constant))
        self._remember(given, scalars, outputs)
        return outputs

    def prepare(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> tuple[list[Segment], int]:
        """Prepares a step without running it; see `WebGPUExecutable.prepare`."""
        given = self._given_to(inputs)
        prepare = super().prepare
        found = self._surviving(lambda: prepare(given, scalars))
        self._prepared = given, dict(scalars)
        return found

    def outputs(self, index: int) -> dict[str, OutputHandle]:
        """Returns the outputs of a step that `prepare` has prepared, once it has run."""
        outputs = super().outputs(index)
        assert self._prepared is not None
        self._remember(*self._prepared, outputs)
        return outputs

    def _given_to(self, inputs: Mapping[str, Any], constant: Collection[str] = ()) -> dict[str, np.ndarray]:
        """Returns what a step is given, which stays as it is; takes a snapshot where one is due."""
        checked = check_inputs(self.program_inputs, inputs)
        given = {name: value if name in constant else np.array(value) for name, value in checked.items()}
        if self._changes and self._journal.is_due:
            first = self._journal.members[0]()
            assert first is not None
            first.read()
        return given

    def _remember(
        self, given: Mapping[str, np.ndarray], scalars: Mapping[str, float], outputs: Mapping[str, OutputHandle]
    ) -> None:
        handles = [weakref.ref(handle) for handle in outputs.values()]
        self._journal.add(Step(weakref.ref(self), given, dict(scalars), handles, self._changes, _bytes(given)))

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the present values; see `ProgramExecutable.read`. All of them are a snapshot."""
        chosen = list(self.persistent if names is None else names)
        read = super().read
        is_snapshot = self._share is None and self.persistent.keys() == {*chosen}
        if is_snapshot:
            self._journal.deliver()
        values = self._surviving(lambda: read(chosen))
        if is_snapshot:
            self._journal.renew({name: value.copy() for name, value in values.items()})
        return values

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name; see `ProgramExecutable.write`."""
        arrays = check_inputs(self.persistent, values, what="parameter or state", partial=True)
        given = {name: np.array(value) for name, value in arrays.items()}
        write = super().write
        self._surviving(lambda: write(given))
        self._journal.add(Write(weakref.ref(self), given, _bytes(given)))


def _bytes(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays.values())


def _changes_state(program: Program) -> bool:
    """Returns whether a step changes parameters or state."""
    kept = {index for index, buffer in enumerate(program.buffers) if buffer.role in PERSISTENT_ROLES}
    for step, _ in runs(program.plan):
        match step:
            case Copy():
                written = [step.destination]
            case Collective():
                written = [buffer for buffer, _, _ in step.writes]
            case Wait():
                written = []
            case Dispatch():
                written = [binding.buffer for binding in step.bindings if binding.access != "read"]
        if not kept.isdisjoint(written):
            return True
    return False
