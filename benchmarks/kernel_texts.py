"""`python -m benchmarks.kernel_texts`: writes the text of every kernel of a training step, and compares two versions.

It shows that a change leaves the generated code as it is: write the texts before the change, and compare after it, in
this checkout or in another one. Nothing runs, so it needs no device.

    python -m benchmarks.kernel_texts --write before
    python -m benchmarks.kernel_texts --compare before

The text of a program has the code of its kernels and the number of workgroups of each dispatch, but not the lines of
the user's source that they come from.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from benchmarks.workloads import LARGE, NAMES, workload
from tensorgrad.runtime.program import Dispatch, Program, Repeat, Step

TARGETS = ("webgpu-default", "lavapipe", "cpu")
"""Shaders for any WebGPU device and for the software adapter of the tests, and native code."""

MOST_LINES = 20
"""The most lines of a difference that are printed."""


def program_text(program: Program) -> str:
    """Returns the code of a program's kernels, and which of them each dispatch runs in how many workgroups."""
    kernels = [f"==== {kernel.entry}, workgroup {kernel.workgroup_size}\n{kernel.code}\n" for kernel in program.kernels]
    dispatches = [
        f"{program.kernels[dispatch.kernel].entry} {dispatch.workgroups}\n" for dispatch in _dispatches(program.plan)
    ]
    return "".join([*kernels, "==== dispatches\n", *dispatches])


def _dispatches(steps: Iterable[Step]) -> Iterator[Dispatch]:
    for step in steps:
        if isinstance(step, Dispatch):
            yield step
        elif isinstance(step, Repeat):
            yield from _dispatches(step.steps)


def kernel_texts(names: Iterable[str] = NAMES, targets: Iterable[str] = TARGETS) -> dict[str, str]:
    """Returns the text of each workload's program for each target, by the name of a file."""
    trained = {name: workload(name)("numpy")[0] for name in names}
    return {
        f"{name} {target}.txt": program_text(training.program_for(target))
        for name, training in trained.items()
        for target in targets
    }


def write_texts(texts: Mapping[str, str], folder: Path) -> None:
    """Writes texts to files in a folder, which is created if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def differences(texts: Mapping[str, str], folder: Path) -> dict[str, list[str]]:
    """Returns how each text that differs from the file of its name differs from it, as the lines of a unified diff.

    Raises:
        OSError: There is no file of that name.
    """
    before = {name: (folder / name).read_text(encoding="utf-8") for name in texts}
    return {
        name: list(difflib.unified_diff(before[name].splitlines(), text.splitlines(), "before", "now", lineterm=""))
        for name, text in texts.items()
        if before[name] != text
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a digest of each text; returns 1 if one differs from the file that it is compared with."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernel_texts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", help=f"{', '.join(NAMES)} (default: all)")
    parser.add_argument("--targets", nargs="+", default=TARGETS, help=f"profiles (default: {', '.join(TARGETS)})")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where the texts go")
    parser.add_argument("--compare", type=Path, metavar="FOLDER", help="where the texts to compare with are")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - {*NAMES, *LARGE})
    if unknown:
        parser.error(f"unknown workload {unknown[0]!r}; the workloads are {', '.join((*NAMES, *LARGE))}")
    texts = kernel_texts(options.names or NAMES, options.targets)
    different = {} if options.compare is None else differences(texts, options.compare)
    for name, text in texts.items():
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        print(digest, name.removesuffix(".txt"), *(["differs"] if name in different else []))
        print(*islice(different.get(name, ()), MOST_LINES), sep="\n", end="\n" if name in different else "")
    if options.write is not None:
        write_texts(texts, options.write)
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
