"""What is known of kernels, as text: a row for each kernel, and a line for each property that is not proved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tensorgrad.checks.proving.kernels import Proved
from tensorgrad.checks.proving.properties import Property, Status, Verdict
from tensorgrad.runtime.columns import aligned

HEADER = ("kernel", "dialect", "grid", *(property_.value for property_ in Property))


def report(proofs: Sequence[Proved]) -> str:
    """Returns a table of kernels, and why what is not proved is open or wrong."""
    rows = [HEADER, *(_row(proof) for proof in proofs)]
    return "\n".join([*aligned(rows), *reasons(proofs)])


def _row(proof: Proved) -> tuple[str, ...]:
    grid = "x".join(map(str, proof.groups))
    return (proof.kernel, proof.dialect, grid, *(_outcome(proof.of(property_)) for property_ in Property))


def _outcome(verdict: Verdict) -> str:
    by_solver = verdict.by_solver and verdict.status is not Status.UNKNOWN
    return verdict.status.value + (" by z3" if by_solver else "")


def reasons(proofs: Iterable[Proved]) -> list[str]:
    """Returns a line for each property that is not proved."""
    return [
        f"{proof.kernel}: {verdict.property.value} {verdict.status.value}: {verdict.reason}"
        for proof in proofs
        for verdict in proof.open
    ]


def totals(proofs: Iterable[Proved]) -> str:
    """Returns how many kernels have each property, by dialect, as a table in Markdown."""
    counts: Counter[tuple[str, Property, Status]] = Counter()
    solved: Counter[tuple[str, Property]] = Counter()
    for proof in proofs:
        for verdict in proof.verdicts:
            counts[proof.dialect, verdict.property, verdict.status] += 1
            solved[proof.dialect, verdict.property] += verdict.by_solver and verdict.status is Status.PROVED
    lines = ["| dialect | property | proved | by z3 | unknown | refuted |", "|---|---|---|---|---|---|"]
    for dialect in sorted({dialect for dialect, _, _ in counts}):
        for property_ in Property:
            proved, refuted, unknown = (counts[dialect, property_, status] for status in Status)
            by_solver = solved[dialect, property_]
            lines.append(f"| `{dialect}` | {property_.value} | {proved} | {by_solver} | {unknown} | {refuted} |")
    return "\n".join(lines)
