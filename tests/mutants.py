"""Plants faults in the source, one at a time, and says which ring of the tests notices each.

    python tests/mutants.py                    # five faults in each room, by `make check`, then `make test`
    python tests/mutants.py --rooms fuse,grad --each 2 --rings check
    python tests/mutants.py --each 40 --rings test,check --lines .coverage

The last asks only tests that run the changed line, at most `--most` of them, and then lit; so its score is a lower
bound. Which tests they are another run has written down, in a checkout with pytest-cov: `pytest -n 2 -m "not nightly
and not mlir and not web" --cov=tensorgrad --cov-context=test`. Several checkouts can share a room's faults: `--part
0/2`.

A fault is one changed operator, comparison, constant or condition, at a place drawn by seed. Some change nothing that
could be noticed: what counts is that a ring notices what the rings beyond it do. Files are changed in place and
restored, so the checkout has to be clean.
"""

from __future__ import annotations

import argparse
import ast
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Room:
    """Modules that belong together.

    Attributes:
        folders: The folders of their source.
        tests: The folders of the tests that say most about them; asked before all others, which is all that they save.
    """

    folders: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = {
    "dialects": Room(("dialects",), ("dialects", "numerics")),
    "grad": Room(("passes/tensors/grad",), ("transforms", "numerics")),
    "tensors": Room(("passes/tensors",), ("passes", "transforms", "numerics")),
    "lowering": Room(("passes/buffers/lower_tg_to_buf",), ("passes", "numerics")),
    "fuse": Room(("passes/buffers/fuse",), ("passes", "driver", "numerics")),
    "buffers": Room(("passes/buffers", "passes/analyses"), ("passes", "checks", "numerics")),
    "codegen": Room(("passes/codegen",), ("passes", "runtime", "numerics")),
    "ops": Room(("frontend/ops",), ("ops", "array_api")),
    "optim": Room(("frontend/optim", "frontend/train"), ("optim", "train")),
    "driver": Room(("frontend/driver", "frontend/eager", "frontend/nn"), ("driver", "eager", "nn")),
    "checks": Room(("checks",), ("checks",)),
    "runtime": Room(("runtime",), ("runtime",)),
}

RINGS = {
    "check": "check and not nightly",
    "test": "not nightly and not mlir and not web",
    "nightly": "nightly",
}
"""The tests of each ring by marker, beyond those of the rings before it; pyright is left out, which few faults fool."""

AT_FIRST, AT_ONCE = 30, 500
"""The numbers of named tests of the first command, since most faults are noticed soon, and of each other one."""

HANGS_AFTER, ENDS_AFTER = 60, 1800
"""The seconds after which a test, and a command, has noticed a fault: some never end; none of these takes so long."""

NOBODY = "nobody"
"""In place of the ring, for a fault that none notices."""

NO_TESTS = 5
"""The status of pytest where a marker leaves no test."""

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Fault:
    """A changed node of a file.

    Attributes:
        room: The room of the file.
        path: The file.
        line: The node's line.
        before: The node's source.
        after: What replaces it.
        text: The whole file with it.
    """

    room: str
    path: Path
    line: int
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"{self.room:9} {self.path.relative_to(ROOT)}:{self.line}  {self.before}  ->  {self.after}"


def changed(node: ast.AST) -> ast.AST | None:
    """Returns another node in place of one; `None` if there is no fault for it."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            return ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.Compare(left, [op], comparators) if type(op) in COMPARISONS:
            return ast.Compare(left, [COMPARISONS[type(op)]()], comparators)
        case ast.BoolOp(op, values):
            return ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
        case ast.Constant(int() as value):
            return ast.Constant(value + 1)
        case _:
            return None


def candidates(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yields the nodes inside functions that can be changed, each with what replaces it."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in (node for function in functions for statement in function.body for node in ast.walk(statement)):
        other = changed(node)
        if other is not None:
            yield node, other


def faults(room: str, count: int, seed: int) -> list[Fault]:
    """Returns a number of faults in a room, in different files while there are any."""
    draw = random.Random(f"{seed} {room}")
    files = sorted(path for folder in ROOMS[room].folders for path in (ROOT / folder).rglob("*.py"))
    trees = {path: path.read_text(encoding="utf-8") for path in files}
    drawn: list[Fault] = []
    for path in draw.sample(files, len(files)) * count:
        text = trees[path]
        pairs = list(candidates(ast.parse(text)))
        if len(drawn) == count or not pairs:
            continue
        node, other = draw.choice(pairs)
        before, after = ast.get_source_segment(text, node) or "", ast.unparse(other)
        lines = text.encode().splitlines(keepends=True)
        assert isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None
        start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
        whole = (text.encode()[:start] + f"({after})".encode() + text.encode()[end:]).decode()
        drawn.append(Fault(room, path, node.lineno, before, after, whole))
    return drawn


def tests_that_run(fault: Fault, lines: str) -> list[str]:
    """Returns the tests that run the line of a fault, told by the contexts of a database of coverage.py's."""
    # A test's context is its name, then the phase; bits of a blob stand for the lines, the lowest ones first.
    query = """
        SELECT DISTINCT context, numbits FROM line_bits
        JOIN file ON file.id = file_id JOIN context ON context.id = context_id
        WHERE path LIKE ? AND context LIKE '%|run'
    """
    with closing(sqlite3.connect(lines)) as database:
        rows = database.execute(query, (f"%/{fault.path.relative_to(ROOT).as_posix()}",)).fetchall()
    byte, bit = divmod(fault.line, 8)
    return [context.removesuffix("|run") for context, bits in rows if len(bits) > byte and bits[byte] >> bit & 1]


def likeliest(names: list[str], room: str, most: int) -> list[str]:
    """Returns at most a number of tests: those of a room's folders first, in an order that is drawn."""
    near = tuple(f"tests/{folder}/" for folder in ROOMS[room].tests)
    drawn = random.Random(room).sample(names, len(names))
    return sorted(drawn, key=lambda name: not name.startswith(near))[:most]


def commands(ring: str, fault: Fault, names: list[str] | None, workers: str) -> Iterator[tuple[str, ...]]:
    """Yields the commands of a ring, those first that are likeliest to notice a fault; of named tests alone."""
    tests = ("pytest", "-x", "-q", "-n", workers, "--timeout", f"{HANGS_AFTER}", "-m", RINGS[ring])
    if ring == "check":
        yield "lit", "-q", "--max-failures", "1", "--workers", str(int(workers) or 1), "tests/lit"
    if names is None:
        if ring != "check":
            yield *tests, *(f"tests/{folder}" for folder in ROOMS[fault.room].tests)
        yield tests
    elif ring != "check":
        starts = [0, *range(AT_FIRST, len(names), AT_ONCE), len(names)]
        yield from ((*tests, *names[start:stop]) for start, stop in pairwise(starts) if start < stop)


def passes(command: list[str | Path]) -> bool:
    """Returns whether a command of tests ends, and without a failure."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=ENDS_AFTER)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode in (0, NO_TESTS)


def noticed(fault: Fault, names: list[str] | None, rings: list[str], workers: str) -> tuple[str, float]:
    """Returns the first ring that notices a fault, or `NOBODY`, and how long that took in seconds."""
    original, start = fault.path.read_text(encoding="utf-8"), time.monotonic()
    try:
        fault.path.write_text(fault.text, encoding="utf-8")
        for ring in rings:
            for program, *words in commands(ring, fault, names, workers):
                command: list[str | Path] = [Path(sys.executable).with_name(program), *words]
                if not passes(command):
                    return ring, time.monotonic() - start
        return NOBODY, time.monotonic() - start
    finally:
        fault.path.write_text(original, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", default=",".join(ROOMS), help="comma-separated; by default all")
    parser.add_argument("--rings", default="check,test", help="comma-separated, in the order in which they are asked")
    parser.add_argument("--each", type=int, default=5, help="the number of faults in a room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", metavar="FILE", help="a database of coverage.py's with a context for each test")
    parser.add_argument("--most", type=int, default=1000, help="the number of tests that --lines asks of a fault")
    parser.add_argument("--workers", default="2", help="of pytest and of lit; 0 is pytest's own process")
    parser.add_argument("--part", default="0/1", help="I/N: each N-th fault of a room, from the I-th on")
    options = parser.parse_args()
    if subprocess.run(["git", "diff", "--quiet"], cwd=ROOT, check=False).returncode:
        parser.error("files are changed and restored: commit or stash what has changed first")
    rings, (first, step) = options.rings.split(","), map(int, options.part.split("/"))
    rooms = options.rooms.split(",")
    drawn = [fault for room in rooms for fault in faults(room, options.each, options.seed)[first::step]]
    asked: list[list[str] | None] = [None] * len(drawn)
    if options.lines:
        asked = [likeliest(tests_that_run(fault, options.lines), fault.room, options.most) for fault in drawn]
    whole = replace(drawn[0], text=drawn[0].path.read_text(encoding="utf-8"))
    if all(names == [] for names in asked) or noticed(whole, asked[0], rings, options.workers)[0] != NOBODY:
        parser.error("without a fault, tests fail, or --lines is of other sources: write it anew")
    counts: Counter[tuple[str, bool]] = Counter()
    for fault, names in zip(drawn, asked, strict=True):
        ring, seconds = noticed(fault, names, rings, options.workers)
        counts[fault.room, ring != NOBODY] += 1
        print(f"{ring:8} {seconds:5.0f} s  {fault}", flush=True)
    print("| room | faults | noticed |", "|---|---|---|", sep="\n")
    for room in dict.fromkeys(fault.room for fault in drawn):
        print(f"| {room} | {counts[room, True] + counts[room, False]} | {counts[room, True]} |")


if __name__ == "__main__":
    main()
