"""Executables that survive a device loss: the steps since a snapshot are replayed on another device.

Parameters and state are only on the device, and are lost with it. So the host keeps a snapshot of them, and the inputs
of every step since. That is enough to reproduce the same bits, as a program has no other inputs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import wgpu

from tensorgrad.runtime.backend import NOTHING
from tensorgrad.runtime.counting import RunCount, completed
from tensorgrad.runtime.errors import DeviceLostError, DeviceLostWarning, warn_user
from tensorgrad.runtime.inputs import check_inputs
from tensorgrad.runtime.outputs import OutputHandle, OutputRing, RingSlot
from tensorgrad.runtime.plan import runs, touched
from tensorgrad.runtime.program import PERSISTENT_ROLES, Program, TensorSlot
from tensorgrad.runtime.webgpu.device import LOCK, LOST, WebGPUDevice
from tensorgrad.runtime.webgpu.encoding import Segment
from tensorgrad.runtime.webgpu.executable import WebGPUExecutable
from tensorgrad.runtime.webgpu.patient_device import PatientDevice

MOST_KEPT = 1 << 28
"""A new snapshot is also taken once the inputs since the last one exceed this many bytes."""

Result = TypeVar("Result")
Redone = list[tuple[OutputHandle, OutputHandle]]
"""Pending outputs, each with its counterpart from the replay."""


class Call(Protocol):
    """A recorded call of an executable, to be replayed."""

    @property
    def bytes(self) -> int:
        """The bytes of host memory that the record takes."""
        ...

    @property
    def changes(self) -> bool:
        """Whether the call changes parameters or state."""
        ...

    def pending(self) -> list[OutputHandle]:
        """Returns its live outputs that have not been read from the device."""
        ...

    def again(self) -> Redone:
        """Replays the call."""
        ...


@dataclass
class Step:
    """A step, recorded before it runs. It holds no strong reference to its executable, whose journal it is in.

    Attributes:
        number: The executable's count of runs once it has run.
        outputs: Its outputs, once the caller has them.
    """

    executable: weakref.ref[RestartingExecutable]
    inputs: Mapping[str, np.ndarray]
    scalars: Mapping[str, float]
    changes: bool
    bytes: int
    number: int
    outputs: Sequence[weakref.ref[OutputHandle]] = ()

    @property
    def has_run(self) -> bool:
        """Whether it has run: the last one may have ended before."""
        executable = self.executable()
        return executable is not None and executable.runs.number >= self.number

    def pending(self) -> list[OutputHandle]:
        """See `Call`."""
        alive = (reference() for reference in self.outputs)
        return [handle for handle in alive if handle is not None and handle.is_pending]

    def again(self) -> Redone:
        """See `Call`."""
        executable, waiting = self.executable(), self.pending()
        if executable is None or not (self.changes or waiting) or not self.has_run:
            return []
        count = executable.runs.number
        try:
            outputs = WebGPUExecutable.step(executable, self.inputs, self.scalars)
        finally:
            executable.runs.number = count
        return [(handle, outputs[handle.name]) for handle in waiting]


@dataclass(frozen=True)
class Write:
    """A write of parameters and state."""

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
    """The record from which executables that share parameters and state are restored.

    Attributes:
        every: The number of steps between snapshots.
        members: The executables; the first has all parameters and state.
        snapshot: Parameters and state; missing ones are zero.
        calls: The calls since the snapshot, in order.
        steps: The number of steps among them that change parameters or state.
        passing: The number of calls that change nothing, and are kept only while their outputs are pending.
        most_passing: If there are more of those than this, they are searched for calls without pending outputs.
        bytes: The bytes of host memory that the calls take.
        restarting: Whether a replay is in progress.
        loss: Why the executables have to be restored, until they are.
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
    loss: DeviceLostError | None = None

    @property
    def is_due(self) -> bool:
        """Whether a snapshot must be taken before the next step."""
        return self.steps >= self.every or self.bytes > MOST_KEPT

    def add(self, call: Call) -> None:
        """Records a call; one that changes nothing is kept only while its outputs are pending.

        Those are searched only once their number has more than doubled since the last search, which keeps the amortized
        cost per call low if there are many unread results.
        """
        if isinstance(call, Write) and not self.calls:
            self.snapshot |= call.values
            return
        if self.passing > self.most_passing:
            self.calls = [call_ for call_ in self.calls if call_.changes or call_.pending()]
            self.passing = sum(not call_.changes for call_ in self.calls)
            self.most_passing = 2 * self.passing
            self.bytes = sum(call_.bytes for call_ in self.calls)
        self.calls.append(call)
        self.steps += call.changes and isinstance(call, Step)
        self.passing += not call.changes
        self.bytes += call.bytes

    @property
    def repeated(self) -> int:
        """The number of steps that a replay repeats."""
        return sum(isinstance(call, Step) and call.changes and call.has_run for call in self.calls)

    def drop(self, call: Step) -> None:
        """Removes a step that has not run, if it is recorded."""
        others = [other for other in self.calls if other is not call]
        self.steps -= call.changes and len(others) < len(self.calls)
        self.calls = others

    def deliver(self) -> None:
        """Reads every pending output."""
        for call in self.calls:
            for handle in call.pending():
                handle.numpy()

    def renew(self, values: Mapping[str, np.ndarray]) -> None:
        """Replaces the snapshot with these parameters and state, all of them; every output must have been delivered."""
        self.snapshot, self.calls = dict(values), []
        self.steps = self.passing = self.most_passing = self.bytes = 0

    def restart(self, loss: DeviceLostError) -> None:
        """Restores all executables on another device.

        Raises:
            DeviceLostError: That device was lost too, or is of another kind. The next call tries again.
            DeviceError: There is no device any more, or it reported an error.

        Warns:
            DeviceLostWarning: Always, on success.
        """
        if self.restarting:
            raise loss
        self.restarting, self.loss = True, loss
        try:
            name = self._restarted()
            self.loss = None
        except DeviceLostError as again:
            raise DeviceLostError(
                f"{again}\nThat was while the {self.repeated} steps since the last snapshot were repeated, because "
                f"{loss}"
            ) from loss
        finally:
            self.restarting = False
        reason = " ".join(str(loss).removesuffix(LOST).split())
        warn_user(
            f"the device was lost: {reason}. The program continues on {name}: from its last snapshot {self.repeated} "
            "steps were repeated, and none is lost",
            DeviceLostWarning,
        )

    def _restarted(self) -> str:
        """Replays all calls; returns the new device's name."""
        members = [member for member in (reference() for reference in self.members) if member is not None]
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
    """A ring whose outputs remain available if the device is lost before they are read."""

    def __init__(self, program: Program, device: PatientDevice, journal: Journal):
        super().__init__(program, device, LOCK)
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
        """Returns an output's value, after a replay delivered it."""
        alive = [(reference(), held) for reference, held in slot.handles]
        (handle,) = (handle for handle, live in alive if handle is not None and live is tensor)
        if handle.is_pending:  # another access may have restarted in the meantime
            self._journal.restart(loss)
        return handle.numpy()


class RestartingExecutable(WebGPUExecutable):
    """A `WebGPUExecutable` that continues on another device when its own is lost, with the same values.

    Args:
        program, in_turn, timeout, trusted: See `WebGPUExecutable`.
        device: The device, unless it shares.
        share: A restarting executable whose parameters and state this one shares; both move together.
        snapshot_every: The number of steps between snapshots of parameters and state; if there is a `share`, its value
            is used.

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
        trusted: bool = False,
    ):
        self._share, self._in_turn = share, in_turn
        self.runs = RunCount()  # loading may already restart the others
        self._journal = Journal(snapshot_every) if share is None else share._journal
        self._changes = _changes_state(program)
        self._prepared: tuple[dict[str, np.ndarray], dict[str, float]] | None = None
        self._last_step: Step | None = None
        load = super().__init__
        if share is not None:
            self._surviving(lambda: load(program, share.device, share, in_turn, timeout, trusted))
        else:
            try:
                load(program, device, None, in_turn, timeout, trusted)
            except DeviceLostError:  # there is nothing on it yet that could be lost
                load(program, device.successor(), None, in_turn, timeout, trusted)
        self._journal.members.append(weakref.ref(self))

    def _new_ring(self, device: PatientDevice) -> OutputRing[wgpu.GPUBuffer]:
        return RestartingRing(self.program, device, self._journal)

    def move(self, device: WebGPUDevice) -> None:
        """Loads the program on another device, with zeroed parameters and state, or those that it shares."""
        self.device = device
        self._filled = self._unfilled
        self._load(self._share, self._in_turn)

    def wait(self) -> None:
        """Waits until all submitted work has completed; see `WebGPUDevice.wait`."""
        self._within("waiting for", self.device.wait)

    def _surviving(self, call: Callable[[], Result]) -> Result:
        """Makes a device call, and repeats it if the device was lost: what it has counted by then is not counted."""
        count = self.runs.number
        if self._journal.loss is not None:  # an exception from outside has interrupted a restart
            self._journal.restart(self._journal.loss)
        try:
            return call()
        except DeviceLostError as loss:
            self.runs.number = count
            self._journal.restart(loss)
        return call()

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Mapping[str, np.ndarray] = NOTHING
    ) -> dict[str, OutputHandle]:
        """Runs the program once; see `WebGPUExecutable.step`. Inputs are copied, except constant ones.

        Raises:
            InputError: An input is missing, unknown, or of the wrong shape or dtype; nothing has changed.
            DeviceError: The device reported an error; or it was lost, and so was its replacement.

        Warns:
            DeviceLostWarning: The device was lost, and the program continues on another.
        """
        run = super().step
        with self.lock:
            copies = self._given_to(inputs, constant)
            step = self._record({**copies, **constant}, scalars)
            outputs = self._surviving(lambda: run(copies, scalars, constant))
            step.outputs = [weakref.ref(handle) for handle in outputs.values()]
            return outputs

    def prepare(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> tuple[list[Segment], int]:
        """Prepares a step without running it; see `WebGPUExecutable.prepare`."""
        copies = self._given_to(inputs)
        prepare = super().prepare
        results = self._surviving(lambda: prepare(copies, scalars))
        self._prepared = copies, dict(scalars)
        return results

    def outputs(self, index: int) -> dict[str, OutputHandle]:
        """Returns the outputs of a prepared step that has run."""
        assert self._prepared is not None
        step = self._record(*self._prepared)
        outputs = super().outputs(index)
        step.outputs = [weakref.ref(handle) for handle in outputs.values()]
        return outputs

    def _given_to(
        self, inputs: Mapping[str, Any], constant: Mapping[str, np.ndarray] = NOTHING
    ) -> dict[str, np.ndarray]:
        """Returns copies of a step's inputs, without constant ones, and takes a snapshot if one is due."""
        checked = check_inputs(self.program_inputs, {**inputs, **constant})
        copies = {name: np.array(checked[name]) for name in inputs}
        if self._changes and self._journal.is_due:
            first = self._journal.members[0]()
            assert first is not None
            first.read()
        return copies

    def _record(self, copies: Mapping[str, np.ndarray], scalars: Mapping[str, float]) -> Step:
        """Records the step that is about to run, in place of one that has not run since."""
        last, number = self._last_step, self.runs.number + 1
        if last is not None and last.number >= number:
            self._journal.drop(last)
        step = Step(weakref.ref(self), copies, dict(scalars), self._changes, _bytes(copies), number)
        self._last_step = step
        self._journal.add(step)
        return step

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the current values; see `ProgramExecutable.read`. A read of all of them is used as a snapshot."""
        chosen = list(self.persistent if names is None else names)
        read = super().read
        is_snapshot = self._share is None and self.persistent.keys() == {*chosen}
        with self.lock:
            if is_snapshot:
                self._journal.deliver()
            values = self._surviving(lambda: read(chosen))
            if is_snapshot:
                self._journal.renew({name: value.copy() for name, value in values.items()})
        return values

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name; see `ProgramExecutable.write`."""
        arrays = check_inputs(self.persistent, values, what="parameter or state", partial=True)
        copies = {name: np.array(value) for name, value in arrays.items()}
        write = super().write

        def act() -> None:
            self._surviving(lambda: write(copies))
            self._journal.add(Write(weakref.ref(self), copies, _bytes(copies)))

        with self.lock:
            completed(act)


def _bytes(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays.values())


def _changes_state(program: Program) -> bool:
    """Returns whether a step changes parameters or state."""
    persistent = {index for index, buffer in enumerate(program.buffers) if buffer.role in PERSISTENT_ROLES}
    return any(
        is_written and buffer in persistent
        for step, counts in runs(program.plan)
        for buffer, _, _, is_written in touched(step, counts)
    )
