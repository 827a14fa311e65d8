"""`tg inspect`: shows the contents of a saved program, without running it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from tensorgrad.runtime.plan import covered_bytes
from tensorgrad.runtime.program import Dispatch, Program, ProgramRole, TensorSlot, runs
from tensorgrad.runtime.saved import Saved
from tensorgrad.runtime.target import WEBGPU_DEFAULT
from tensorgrad.tools.arrays import array_type, check_saved
from tensorgrad.tools.printing import plain, print_json, size
from tensorgrad.tools.tables import Listing

NEEDS = (
    "max_storage_buffers_per_shader_stage",
    "max_storage_buffer_binding_size",
    "max_buffer_size",
    "max_compute_invocations_per_workgroup",
    "max_compute_workgroup_storage_size",
    "f16",
    "subgroups",
)
"""Descriptions of requirements that exceed WebGPU's defaults."""

ROLES = (ProgramRole.INPUT, ProgramRole.PARAMETER, ProgramRole.STATE, ProgramRole.SCALAR, ProgramRole.OUTPUT)


@dataclass(frozen=True)
class Inspect:
    """Shows inputs, parameters, memory, dispatches and the bytes that each kernel moves.

    Attributes:
        path: A saved program.
        json: Whether to print JSON.
        rows: The number of rows in a table.
    """

    path: str
    json: bool = False
    rows: int = 20

    def run(self, console: Console) -> None:
        """Prints the contents of the file.

        Raises:
            ProgramError: It is not a program, or is malformed.
            OSError: It can't be read.
        """
        check_saved(self.path)
        saved = Saved.load(self.path)
        facts = _facts(saved)
        if self.json:
            print_json(console, facts)
            return
        program = saved.program
        what = "a program" if saved.host is None else f"a {saved.host.kind}"
        console.print(plain(f"{program.name}: {what}, {', '.join(_summary(facts))}"), soft_wrap=True)
        if facts["needs"]:
            needs = ", ".join(f"{name} {value}" for name, value in facts["needs"].items())
            console.print(plain(f"needs {needs}"), soft_wrap=True)
        self._tensors(program).print(console)
        self._kernels(facts["kernels"]).print(console)

    def _tensors(self, program: Program) -> Listing:
        table = Listing(("role", "name", "type"), ("bytes",))
        slots = [slot for role in ROLES for slot in program.slots(role).values()]
        for slot in slots[: self.rows]:
            table.add(slot.role, slot.formula or slot.name, _type(slot), size(slot.size))
        others = slots[self.rows :]
        if others:
            table.add("", f"{len(others)} others", "", size(sum(slot.size for slot in others)))
        return table

    def _kernels(self, kernels: list[dict[str, Any]]) -> Listing:
        table = Listing(("kernel", "from"), ("dispatches", "bytes bound", "code"))
        for kernel in kernels[: self.rows]:
            label = kernel["label"].replace("\\", "/").rpartition("/")[2]
            table.add(kernel["kernel"], label, str(kernel["dispatches"]), size(kernel["bytes"]), size(kernel["code"]))
        others = kernels[self.rows :]
        if others:
            total = sum(other["dispatches"] for other in others)
            table.add(f"{len(others)} others", "", str(total), size(sum(other["bytes"] for other in others)))
        return table


def _facts(saved: Saved) -> dict[str, Any]:
    program, host = saved.program, saved.host
    return {
        "name": program.name,
        "kind": None if host is None else host.kind,
        "language": sorted({kernel.language for kernel in program.kernels}),
        "needs": _needs(program),
        "tensors": {
            role: {slot.name: {"type": _type(slot), "bytes": slot.size, "formula": slot.formula} for slot in slots}
            for role in ROLES
            if (slots := list(program.slots(role).values()))
        },
        "bytes": sum(buffer.size for buffer in program.buffers),
        "statistics": dict(program.statistics),
        "kernels": _kernels(program),
        "step_count": None if host is None else host.step_count,
        "settings": {} if host is None else dict(host.settings),
    }


def _kernels(program: Program) -> list[dict[str, Any]]:
    """Returns the kernels with the bytes that a step binds, each byte once for each dispatch, largest first."""
    times: Counter[int] = Counter()
    moved: Counter[int] = Counter()
    labels: dict[int, str] = {}
    for step, counts in runs(program.plan):
        if isinstance(step, Dispatch):
            count = math.prod(counts)
            times[step.kernel] += count
            moved[step.kernel] += count * covered_bytes(
                (binding.buffer, binding.offset, binding.offset + binding.size) for binding in step.bindings
            )
            labels.setdefault(step.kernel, step.label)
    return [
        {
            "kernel": program.kernels[number].entry,
            "label": labels[number],
            "dispatches": times[number],
            "bytes": moved[number],
            "code": len(program.kernels[number].code),
        }
        for number in sorted(times, key=lambda number: -moved[number])
    ]


def _needs(program: Program) -> dict[str, Any]:
    """Returns the program's requirements beyond WebGPU's defaults."""
    if program.target is None or program.target.native:
        return {}
    defaults = asdict(WEBGPU_DEFAULT)
    needed = {name: value for name, value in asdict(program.target).items() if name in NEEDS}
    return {name: value for name, value in needed.items() if value and value > (defaults[name] or 0)}


def _summary(facts: dict[str, Any]) -> list[str]:
    dispatches = sum(kernel["dispatches"] for kernel in facts["kernels"])
    parts = [f"{dispatches} dispatches of {len(facts['kernels'])} kernels", f"{size(facts['bytes'])} of buffers"]
    return parts + ([f"step {facts['step_count']}"] if facts["kind"] == "step" else [])


def _type(slot: TensorSlot) -> str:
    return array_type(slot.shape, slot.dtype)
