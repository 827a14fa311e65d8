"""What passes decided, traced to the dispatches that kernels became."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects.builtin import LocationAttr, ModuleOp

from tensorgrad.dialects.functions import defined_functions
from tensorgrad.dialects.locations import line_in
from tensorgrad.dialects.signature import arguments_of
from tensorgrad.passes.buffers import decisions as told
from tensorgrad.report.facts import NOWHERE, Choice, Decision, SourceLine
from tensorgrad.report.flow import Flow
from tensorgrad.report.locations import Sources

INSIDE = ("inline", "recompute", "prologue")
"""The rules that compute a kernel in another one, and perhaps in several; the others make one of two."""


class Destinations:
    """The dispatches that kernels became.

    A kernel is known by the names of its results. Those that are no longer stored are computed where the kernels went
    that theirs was merged into.

    Args:
        fusions: What was decided, in order; the mergers count.
        flow: The dispatches and what they write.
        named: The names of tensors by that of the value that they are in the IR.
    """

    def __init__(self, fusions: Iterable[told.Decision], flow: Flow, named: Mapping[str, str]):
        self._named = named
        self._runs = {flow.values[number].name: run for run, use in enumerate(flow.uses) for number in use.writes}
        self._next: dict[str, set[str]] = {}
        for fusion in fusions:
            if isinstance(fusion, told.Pairing) and fusion.rule:
                self._join(fusion.kernel.results, fusion.other.results)
                if fusion.rule not in INSIDE:
                    self._join(fusion.other.results, fusion.kernel.results)

    def run(self, results: Sequence[str]) -> int:
        """Returns the dispatch of a kernel, by the names of its results; -1 if there is none."""
        seen, names = set(results), list(results)
        for name in names:
            run = self._runs.get(f"%{name}", self._runs.get(self._named.get(name, "")))
            if run is not None:
                return run
            names += [other for other in sorted(self._next.get(name, ())) if other not in seen]
            seen.update(names)
        return -1

    def _join(self, names: Sequence[str], others: Sequence[str]) -> None:
        for name in names:
            self._next.setdefault(name, set()).update(others)


def decisions_of(
    decisions: Sequence[told.Decision], destinations: Destinations, sources: Sources
) -> tuple[Decision, ...]:
    """Returns what a pass decided about pairs of kernels, in order.

    Args:
        decisions: The pass's decisions.
        destinations: The dispatches that kernels became.
        sources: The files of the user's program.
    """
    return tuple(
        Decision(
            pairing.rule,
            *_kernel(pairing.kernel, destinations, sources),
            *_kernel(pairing.other, destinations, sources),
            pairing.reason,
        )
        for pairing in decisions
        if isinstance(pairing, told.Pairing)
    )


def choices_of(decisions: Sequence[told.Decision], destinations: Destinations, sources: Sources) -> tuple[Choice, ...]:
    """Returns what a pass chose otherwise, in order; the arguments are those of `decisions_of`."""
    return tuple(
        Choice(*_kernel(choice.subject, destinations, sources), choice.text)
        for choice in decisions
        if isinstance(choice, told.Choice)
    )


def _kernel(kernel: told.Outline | str, destinations: Destinations, sources: Sources) -> tuple[str, SourceLine, int]:
    """Returns a description, its line and its dispatch."""
    if isinstance(kernel, str):
        return kernel, NOWHERE, -1
    return kernel.text, _place(kernel.location, sources), destinations.run(kernel.results)


def names_of_results(module: ModuleOp) -> dict[str, str]:
    """Returns the names of the tensors that a module of buffers writes, by that of the argument that each is."""
    return {
        str(argument.name_hint): slot.name
        for function in defined_functions(module)
        for argument, slot in zip(function.args, arguments_of(function), strict=True)
    }


def _place(location: LocationAttr, sources: Sources) -> SourceLine:
    line = line_in(location)
    return NOWHERE if line is None else sources.place(line.filename.data, line.line.data)
