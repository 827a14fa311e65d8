"""Compiles a traced function to an executable: the passes, timed by phase, and the loader of their result."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast, overload

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, arguments_of
from tensorgrad.driver.device import compiling_ahead, load_program, target_of
from tensorgrad.driver.dumping import Dump
from tensorgrad.driver.program_cache import FORMAT, Entry, ProgramCache
from tensorgrad.driver.program_key import ProgramKey, key_of
from tensorgrad.driver.running import Phases, run_passes
from tensorgrad.errors import CompilerError, NumericsError, OptionError, ProgramError
from tensorgrad.interpreters.backend import NumpyExecutable
from tensorgrad.passes.analyses.dominance import verify_dominance
from tensorgrad.passes.analyses.storage import PEAK_BYTES
from tensorgrad.passes.buffers.lower_precision import LowerPrecisionPass
from tensorgrad.passes.pipelines import Phase, device_passes, start_of, until
from tensorgrad.passes.running import with_reproducer
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.program import Kernel, Program
from tensorgrad.runtime.target import CPU, WEBGPU_DEFAULT, Target
from tensorgrad.surface.collector import without_collector
from tensorgrad.tracing.location import user_line

if TYPE_CHECKING:
    from tensorgrad.checks.numerics import NumericsVerifier
    from tensorgrad.driver.device import CompileKernel, ProgramDevice
    from tensorgrad.report.facts import Facts
    from tensorgrad.runtime.profile import Profile

DEFAULT_TUNING_SECONDS = 60.0
"""The default time limit of tuning."""

SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""The numbers of segments that a memory limit may divide a function into."""

EditPasses: TypeAlias = Callable[[list[ModulePass]], Sequence[ModulePass]]
"""A user's function that modifies a list of passes."""


def tuning_seconds(tune: bool | float) -> float:
    """Returns for how many seconds schedules may be measured, from the caller's option.

    Raises:
        OptionError: It is not a number, or negative.
    """
    if isinstance(tune, bool):
        return DEFAULT_TUNING_SECONDS if tune else 0.0
    if not isinstance(tune, int | float) or not 0 <= tune < float("inf"):
        raise OptionError(f"tune must be True, False or a number of seconds, got {tune!r}")
    return float(tune)


TensorPasses: TypeAlias = Callable[[int, Target | None], Sequence[ModulePass]]
"""Returns passes on `tg` for a number of segments and a target."""


@dataclass(eq=False)
class Compilation:
    """A traced function and how it is compiled.

    Attributes:
        name: The program's name in messages.
        traced: The module as it was traced; every level is built from a copy of it.
        on_tensors: Returns the passes that stay on `tg`, given the number of segments for `remat` and the target of
            kernels, which is `None` if numpy runs tensors.
        device: The device to run on; `None` is numpy.
        phases: The time of each phase.
        memory_limit: The most bytes that all buffers on the device may take together, or None.
        reserved_bytes: The part of the limit that is reserved for a step's other program.
        tuning_seconds: The time limit for measuring schedules; with 0, the default schedules are used.
        settings: The host values that formulas of the program's scalars read; known once it is loaded.
        parameters: The names of the parameters, in memory order; known once it is loaded.
        segments: The number of segments that `remat` divides the function into to stay within the limit.
        frugal: Whether kernels are ordered for low memory use rather than for few dispatches.
        tuned: The file of measured schedules, or None.
        precision: The pass that stores values between kernels with fewer bits, or None.
        timeout: For how many seconds to wait for the device at a time, or None.
        snapshot_every: The number of steps between snapshots to restart from when the device is lost, or None.
        memory_cost: The cost of the memory limit: the segments, and the figures of the program without them.
        dump: The files that `TG_DUMP` requests; opened when the program is loaded.
        edit_passes: Modifies the list of passes on `tg`, and the list of those below it, before they run.
        verify: Whether to run the module after each pass, and compare its results.
    """

    name: str
    traced: ModuleOp
    on_tensors: TensorPasses
    device: ProgramDevice | None
    phases: Phases
    memory_limit: int | None = None
    reserved_bytes: int = 0
    tuning_seconds: float = 0.0
    settings: frozenset[str] = frozenset()
    segments: int = 1
    frugal: bool = False
    tuned: str | None = None
    precision: LowerPrecisionPass | None = None
    timeout: float | None = None
    snapshot_every: int | None = None
    memory_cost: dict[str, int] = field(default_factory=dict[str, int])
    parameters: tuple[str, ...] = ()
    dump: Dump | None = None
    edit_passes: EditPasses | None = None
    verify: bool = False
    _verifier: NumericsVerifier | None = None

    def load(self, share: Executable | None, in_turn: bool = False) -> Executable:
        """Compiles the function and loads it on its device.

        Args:
            share: An executable on the same device whose parameters this one shares.
            in_turn: Whether to share the memory of its inputs and temporaries too.

        Raises:
            ProgramError: A pass rejects the program, or it exceeds the memory limit.
            TensorgradError: The device can't run it.
            KeyboardInterrupt: From the user; names their line, and has none of the compiler's frames.
        """
        self.dump = Dump.from_environment(self.name)
        try:
            if self.device is None:
                return self._load_on_numpy(share)
            return self._load_on_device(self.device, share, in_turn)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{user_line()}: interrupted while {self.name} was compiled") from None

    def _load_on_numpy(self, share: Executable | None) -> Executable:
        module = self._on_tensors(None)
        self._note(module)
        kernels = None if self.precision is None else self._kernels(module)
        with self.phases.measure("load"):
            assert share is None or isinstance(share, NumpyExecutable)
            return NumpyExecutable(module, share=share, kernels=kernels)

    def tensor_passes(self, target: Target | None = None) -> Sequence[ModulePass]:
        """Returns the passes that stay on `tg`, for a target, by default the device."""
        return self._edited(self.on_tensors(self.segments, target_of(self.device) if target is None else target))

    def _on_tensors(self, target: Target | None) -> ModuleOp:
        module = self.traced.clone()
        self._dumped("traced", module)
        if self.verify:
            from tensorgrad.checks.numerics import NumericsVerifier

            with self.phases.measure("verify"):
                self._verifier = NumericsVerifier(module, self.name)
        run_passes(module, self.tensor_passes(target), self.phases, source=self.traced.clone, after=self._after)
        self._dumped("tg", module)
        return module

    def _note(self, module: ModuleOp) -> None:
        """Records the settings and parameters of the program to load, once its passes on `tg` have run."""
        slots = arguments_of(find_function(module, None))
        self.parameters = tuple(slot.name for slot in slots if slot.role == Role.PARAMETER)
        self.settings = frozenset(name for slot in slots if slot.formula for name in Formula(slot.formula).names)

    def _tensors_again(self, target: Target) -> ModuleOp:
        """Returns the module after the passes on `tg`, for the reproducer of a crash below."""
        module = self.traced.clone()
        run_passes(module, self.tensor_passes(target), Phases(), verify=False)
        return module

    def _after(self, one: ModulePass, module: ModuleOp) -> None:
        """Checks the module after a pass if verification is on or the user has edited the passes.

        Raises:
            CompilerError: It is invalid.
            NumericsError: Its values have changed.
        """
        if self.edit_passes is not None:
            try:
                module.verify()
                verify_dominance(module)
            except (DiagnosticException, VerifyException) as error:
                raise CompilerError(f"{one.name} left invalid IR: {error}") from error
        if self._verifier is not None:
            self._verifier.check(one, module)

    def _check_kernels(self, module: ModuleOp, passes: Sequence[ModulePass], source: Callable[[], ModuleOp]) -> None:
        """Compares each kernel of a device with `buf`, if verification is on.

        Raises:
            NumericsError: A kernel's result differs.
        """
        if self._verifier is None:
            return
        with self.phases.measure("verify"):
            try:
                self._verifier.check_kernels(module)
            except NumericsError as error:
                raise with_reproducer(error, passes, start_of(Phase.DEVICE, passes), source) from error

    def _dumped(self, level: str, module: ModuleOp) -> None:
        """Writes a level to the directory of `TG_DUMP`, if it is set."""
        if self.dump is not None:
            self.dump.module(level, module)

    def _kernels(self, module: ModuleOp) -> ModuleOp:
        """Returns the kernels that a device would run, so that numpy rounds values where they are stored."""
        made = module.clone()
        run_passes(made, until(Phase.SCHEDULED, self._below(self.target())), self.phases)
        return made

    def _below(self, target: Target) -> list[ModulePass]:
        """Returns the passes from `tg` down."""
        return self._edited(device_passes(target, self.tuned, self.frugal, self.precision))

    def _edited(self, passes: Sequence[ModulePass]) -> list[ModulePass]:
        """Returns the passes after `edit_passes`.

        Raises:
            OptionError: It returns something other than passes.
        """
        if self.edit_passes is None:
            return list(passes)
        if not callable(self.edit_passes):
            raise OptionError(f"edit_passes must be a function of a list of passes, got {self.edit_passes!r}")
        edited: object = self.edit_passes(list(passes))
        if not isinstance(edited, Sequence) or not all(isinstance(one, ModulePass) for one in edited):
            raise OptionError(f"edit_passes must return a list of xDSL's ModulePass, got {edited!r}")
        return list(cast("Sequence[ModulePass]", edited))

    def target(self) -> Target:
        """Returns the target of kernels: the device; on numpy the WebGPU default limits, with f16 if requested."""

        if self.device is not None:
            return self.device.target
        found = WEBGPU_DEFAULT
        return found if self.precision is None else replace(found, name=f"{found.name} with shader-f16", f16=True)

    def _load_on_device(
        self, device: ProgramDevice, share: Executable | None, in_turn: bool
    ) -> ProgramExecutable[Any, Any]:
        with compiling_ahead(device) as compile_kernel:
            program = self._for_device(device, compile_kernel)
            with self.phases.measure("load"):
                return load_program(device, program, share, in_turn, self.timeout, self.snapshot_every)

    def _for_device(self, device: ProgramDevice, compile_kernel: CompileKernel | None) -> Program:
        """Returns the program, from the cache on a hit, else by running all passes."""
        cache = ProgramCache.from_environment() if self._may_be_kept() else None
        if cache is None:
            self._tune(device)
            return self._within_memory(device.target, compile_kernel)
        if self.tuning_seconds:
            from tensorgrad.driver.tuning import table_path

            self.tuned = str(table_path(device))
        options = self._options(device)
        key, entry = self._look_up(cache, options)
        is_tuned = True
        if self.tuning_seconds and not (entry and entry.is_tuned):
            is_tuned = self._tune(device)
            key, entry = self._look_up(cache, options)
        if entry is None or entry.is_tuned != is_tuned:
            program = self._within_memory(device.target, compile_kernel)
            compiled = Entry(
                program,
                self.parameters,
                self.settings,
                self.segments,
                self.frugal,
                self.memory_cost,
                is_tuned,
                key.lines,
            )
            with self.phases.measure("cache"):
                cache.write(key, compiled)
            return program
        self.parameters, self.settings = entry.parameters, entry.settings
        self.segments, self.frugal, self.memory_cost = entry.segments, entry.frugal, dict(entry.memory_cost)
        logging.getLogger("tensorgrad.cache").info("%s: compiled before, found in %s", self.name, cache.folder)
        return replace(entry.program, name=self.name)  # a lambda's has its line

    def _may_be_kept(self) -> bool:
        """Returns whether the program may be cached: only built-in passes produce it, and nothing is dumped."""
        if self.dump is not None or self.edit_passes is not None or self.verify:
            return False
        return all(type(one).__module__.startswith("tensorgrad.") for one in self.tensor_passes())

    def _options(self, device: ProgramDevice) -> dict[str, object]:
        """Returns what the program depends on besides the traced module and the compiler."""
        return {
            "format": FORMAT,
            "passes": [repr(one) for one in self.tensor_passes()],
            "precision": repr(self.precision),
            "target": device.target.to_json(),
            "memory": [self.memory_limit, self.reserved_bytes, self.segments, self.frugal],
            "is_tuned_for": self.tuning_seconds > 0,
        }

    @without_collector()
    def _look_up(self, cache: ProgramCache, options: Mapping[str, object]) -> tuple[ProgramKey, Entry | None]:
        """Returns the program's cache key under the currently known schedules, and its entry in the cache."""
        with self.phases.measure("cache"):
            try:
                schedules = "" if self.tuned is None else Path(self.tuned).read_bytes().hex()
            except FileNotFoundError:
                schedules = ""  # nothing has been measured yet
            key = key_of(self.traced, {**options, "schedules": schedules})
            return key, cache.read(key)

    def _tune(self, device: ProgramDevice) -> bool:
        """Measures schedules for the kernels, if tuning is on; returns whether all have been tuned."""
        if not self.tuning_seconds:
            return True
        from tensorgrad.driver.tuning import tune

        with self.phases.measure("tune"):
            module = self.traced.clone()
            run_passes(module, until(Phase.SCHEDULED, self.down_to_kernels()), Phases())
            start = time.perf_counter()
            self.tuned = str(tune(module, device, self.tuning_seconds))
            return time.perf_counter() - start < self.tuning_seconds

    def _within_memory(self, target: Target, compile_kernel: CompileKernel | None) -> Program:
        """Returns the program, with the fewest recomputed segments that its memory limit allows.

        Args:
            target: The target to compile for.
            compile_kernel: Called with kernels that are certain to be used, as soon as they are written.

        Raises:
            ProgramError: It exceeds the limit with any number of segments.
        """
        if self.memory_limit is None:
            return self._lowered(target, compile_kernel, is_loaded=True)
        most = self.memory_limit - self.reserved_bytes
        self.frugal, self.segments = False, 1
        first = found = self._lowered(target, is_loaded=True)
        planned: list[tuple[int, int]] = []  # bytes that the plan alone takes, and the number of segments
        exact = [first.statistics["peak_bytes"]]
        for segments in () if exact[0] <= most else SEGMENTS:
            self.frugal, self.segments = True, segments
            found = self._lowered(target, is_loaded=True, most_bytes=most)
            if isinstance(found, int):
                planned.append((found, segments))
                continue
            exact.append(found.statistics["peak_bytes"])
            if exact[-1] <= most:
                break
        if isinstance(found, Program) and exact[-1] <= most:
            self.memory_cost = {
                "segments": self.segments,
                "peak_bytes_without": exact[0],
                "bytes_moved_without": first.statistics["bytes_moved"],
            }
            return found
        for least, self.segments in sorted(planned):
            if least >= min(exact):
                break
            exact.append(self._lowered(target).statistics["peak_bytes"])  # kernels may need more than the plan
        raise ProgramError(
            f"{user_line()}: {self.name}: memory_limit is {self.memory_limit} bytes, but a step needs "
            f"{min(exact) + self.reserved_bytes} with recomputation and {exact[0] + self.reserved_bytes} without"
        )

    @overload
    def _lowered(
        self, target: Target, compile_kernel: CompileKernel | None = None, is_loaded: bool = False
    ) -> Program: ...

    @overload
    def _lowered(
        self, target: Target, compile_kernel: None = None, is_loaded: bool = False, *, most_bytes: int
    ) -> Program | int: ...

    @without_collector()
    def _lowered(
        self,
        target: Target,
        compile_kernel: CompileKernel | None = None,
        is_loaded: bool = False,
        most_bytes: int | None = None,
    ) -> Program | int:
        """Returns the program for a target.

        Args:
            target: The target to compile for.
            compile_kernel: Called with each kernel as soon as it is written, if given.
            is_loaded: Whether this is the program to load, whose parameters and settings are recorded.
            most_bytes: If the memory plan takes more bytes than this, no kernel is written, and the plan's bytes are
                returned instead of a program.
        """
        module = self._on_tensors(target)
        if is_loaded:
            self._note(module)
        passes, source = self._below(target), partial(self._tensors_again, target)
        kernels: Mapping[str, Kernel] = {}
        if compile_kernel is not None and not self._is_watched():
            from tensorgrad.driver.native_kernels import run_passes_by_kernel

            kernels = run_passes_by_kernel(module, passes, self.phases, compile_kernel, source)
        else:
            # The result is verified as a program, and by the device's own compiler.
            run: Callable[..., None] = partial(
                run_passes, phases=self.phases, verify=False, source=source, after=self._after
            )
            run(module, until(Phase.DEVICE, passes))
            if most_bytes is not None and (planned := self._planned_bytes(module)) > most_bytes:
                return planned
            self._dumped("buf", module)
            run(module, passes, first=start_of(Phase.DEVICE, passes))
            self._check_kernels(module, passes, source)
            self._dumped("llvm" if target.native else "wgsl", module)
        with self.phases.measure("build"):
            from tensorgrad.passes.codegen.build_program import build_program

            program = build_program(module, target, self.name, kernels)
        if self.dump is not None:
            self.dump.program(program, module)
        return program

    def _planned_bytes(self, module: ModuleOp) -> int:
        """Returns the bytes of the memory plan, or 0 if there is none yet."""
        known = find_function(module, self.name).attributes.get(PEAK_BYTES)
        return known.value.data if isinstance(known, IntegerAttr) else 0

    def _is_watched(self) -> bool:
        """Returns whether the module is observed between passes (dumps, hooks, verification)."""
        is_logged = logging.getLogger("tensorgrad.passes").isEnabledFor(logging.DEBUG)
        return is_logged or self.dump is not None or self.edit_passes is not None or self.verify

    def program(self, target: Target | None = None) -> Program:
        """Returns the program for a target, by default the device; on numpy for the WebGPU default limits."""

        return self._lowered(self.target() if target is None else target)

    def program_for(self, spec: str) -> Program:
        """Returns the program for another target.

        Args:
            spec: A profile's name, the path of a JSON file, or inline JSON.

        Raises:
            TargetError: There is no such target, or the program doesn't fit it.
            ProgramError: The program can't be compiled for it.
        """

        target = Target.from_spec(spec)
        program = self.program(target)
        program.check_fits(target)
        return program

    def facts(self, device: str, profile: Profile | None) -> Facts:
        """Returns the data of a report on the compilation; reruns all passes.

        Args:
            device: A description of the device.
            profile: The measured times of its dispatches, if there are any.

        Raises:
            ProgramError: No device of the target can run it.
        """
        from tensorgrad.report.collect import collect

        target = self.target()
        return collect(self.traced, self.tensor_passes(target), self._below(target), target, self.name, device, profile)

    def text(self, level: str) -> str:
        """Returns the IR at a level, rebuilt from the traced module.

        Raises:
            OptionError: There is no such level; lists those there are.
        """
        if level not in LEVELS:
            raise OptionError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
        module = self.traced.clone()
        run_passes(module, LEVELS[level](self), Phases())
        return str(module)

    def down_to_kernels(self, target: Target | None = None) -> list[ModulePass]:
        """Returns all passes down to kernels, for a target, by default the device."""
        found = self.target() if target is None else target
        return [*self.tensor_passes(found), *self._below(found)]

    def down_to_shaders(self) -> list[ModulePass]:
        """Returns all passes down to WGSL, for the device, or for the WebGPU default limits if it runs no shaders."""
        target = self.target()
        return self.down_to_kernels(WEBGPU_DEFAULT if target.native else target)

    def down_to_native_code(self) -> list[ModulePass]:
        """Returns all passes down to native code, for the device, or for a generic CPU if it runs shaders."""
        target = self.target()
        return self.down_to_kernels(target if target.native else CPU)

    def down_to_cpu(self) -> list[ModulePass]:
        """Returns the passes down to native loops."""
        passes = self.down_to_native_code()
        return passes[: 1 + start_of(Phase.DEVICE, passes)]

    def down_to_buf(self) -> Sequence[ModulePass]:
        """Returns the passes down to scheduled kernels."""
        return until(Phase.DEVICE, self.down_to_kernels())


LEVELS: dict[str, Callable[[Compilation], Sequence[ModulePass]]] = {
    "traced": lambda compilation: [],
    "tg": lambda compilation: compilation.tensor_passes(),
    "buf": Compilation.down_to_buf,
    "wgsl": Compilation.down_to_shaders,
    "cpu": Compilation.down_to_cpu,
    "llvm": Compilation.down_to_native_code,
}
"""The levels that can be inspected, each with the passes that lead to it."""
