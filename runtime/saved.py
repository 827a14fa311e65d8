"""What a file holds: a program or two that share memory, their parameters, and what their host does around them.

A function is one program. A training step is one, or two where gradients are accumulated: the first is a step's last
micro-batch, which updates, the other runs for those before it. The second uses the first one's parameters and state,
and may use its inputs and temporary values in turn.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from tensorgrad.runtime.errors import MALFORMED, ProgramError
from tensorgrad.runtime.files import parsed_json, write_safetensors
from tensorgrad.runtime.program import (
    HEADER,
    PERSISTENT_ROLES,
    Program,
    checked_state,
    constants_of,
    program_from_json,
    program_to_json,
    read_program_file,
    state_in,
)
from tensorgrad.runtime.sharing import persistent_in

Tree: TypeAlias = "str | dict[str, Any] | None"
"""The structure of results: an output's name; nothing; or a node, `{"dict": {name: tree}}`, `{"list": [tree, ...]}` or
`{"tuple": [tree, ...]}`."""

FUNCTION, STEP = "function", "step"
STEP_KEY = "fold_in(key(seed), call)"
"""The key of a call, which is counted from 1; micro-batches count each."""
OTHERS = "accumulate"
"""The name of the program for micro-batches, and how its constants' names begin."""


@dataclass(frozen=True)
class Host:
    """What is around a program.

    Attributes:
        kind: "function", or "step" for one of a training.
        results: What it returns.
        made: The inputs that the host makes itself, by name: keys, by `STEP_KEY`.
        key: The key of the seed, two words.
        step_count: How many steps have run.
        accumulate: How many micro-batches a step has.
        accumulated: How many of the present one have run.
        settings: What formulas are computed from, but for `step` and `micro_step`.
    """

    kind: str
    results: Tree
    made: Mapping[str, str] = field(default_factory=dict[str, str])
    key: tuple[int, int] = (0, 0)
    step_count: int = 0
    accumulate: int = 1
    accumulated: int = 0
    settings: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Saved:
    """What a file holds.

    Attributes:
        program: What runs: of a step with micro-batches, the last of them.
        state: The values of all its parameters and state, by name.
        host: What is around it, or `None` for a program alone.
        others: The program for the micro-batches before the last.
    """

    program: Program
    state: Mapping[str, np.ndarray]
    host: Host | None = None
    others: Program | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file, which is replaced at once, when it is complete.

        Raises:
            ProgramError: A program is malformed.
            InputError: The state is not the program's.
            OSError: The file can't be written.
        """
        self.validate()
        metadata = {**HEADER, "program": program_to_json(self.program)}
        tensors = {**constants_of(self.program), **checked_state(self.program, self.state)}
        if self.host is not None:
            metadata["host"] = json.dumps(asdict(self.host), allow_nan=False)
        if self.others is not None:
            metadata[OTHERS] = program_to_json(self.others)
            tensors |= constants_of(self.others, f"{OTHERS}/")
        write_safetensors(path, tensors, metadata)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Saved:
        """Reads a file that `save` wrote, or `Program.save`.

        Raises:
            ProgramError: The file holds no program, one of another format version, or something malformed.
            OSError: The file can't be read.
        """
        metadata, tensors = read_program_file(path)
        program = program_from_json(metadata.get("program", ""), tensors, str(path))
        others = None
        if OTHERS in metadata:
            others = program_from_json(metadata[OTHERS], tensors, str(path), f"{OTHERS}/")
        try:
            host = _host(metadata["host"]) if "host" in metadata else None
            found = Saved(program, state_in(program, tensors, str(path)), host, others)
            found.validate()
        except (*MALFORMED, ProgramError) as error:
            raise ProgramError(f"{path} holds a malformed program: {error}") from error
        return found

    def validate(self) -> None:
        """Checks that programs, state and host belong together.

        Raises:
            ProgramError: They don't; says what is wrong.
        """
        host = self.host
        if self.others is not None:
            persistent_in(self.others, self.program)
            _require(host is not None and host.accumulate > 1, "a second program is for steps of micro-batches")
        if host is None:
            return
        missing = self.program.slots(*PERSISTENT_ROLES).keys() - self.state.keys()
        _require(not missing, f"there are no values of {', '.join(sorted(missing))}")
        _require(host.kind in (FUNCTION, STEP), f"kind must be {FUNCTION!r} or {STEP!r}, got {host.kind!r}")
        for name in ("step_count", "accumulate", "accumulated"):
            _require(_is_count(getattr(host, name)), f"{name} must be a number from 0, got {getattr(host, name)!r}")
        _require(host.accumulated < host.accumulate, f"{host.accumulated} of {host.accumulate} micro-batches have run")
        _require((host.accumulate > 1) == (self.others is not None), "micro-batches need a second program")
        words = all(_is_count(word) and word < 1 << 32 for word in host.key)
        _require(len(host.key) == 2 and words, f"key must be two words, got {host.key!r}")
        inputs = self.program.slots("input")
        for name, how in host.made.items():
            slot = inputs.get(name)
            fits = slot is not None and (slot.shape, slot.dtype) == ((2,), "u32")
            _require(how == STEP_KEY and fits, f"the host can't make input {name!r} by {how!r}")
        for name, value in host.settings.items():
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            _require(isinstance(name, str) and number, f"setting {name!r} must be a finite number, got {value!r}")
        for program in (self.program, self.others):  # either computes what a step of micro-batches returns
            if program is not None:
                fill(host.results, program.slots("output").__getitem__)


def fill(tree: Tree, leaf: Callable[[str], Any]) -> Any:
    """Results in their structure, each by its output's name.

    Raises:
        ProgramError: This is not a tree.
        KeyError: There is no such output.
    """
    if tree is None:
        return None
    if isinstance(tree, str):
        return leaf(tree)
    _require(isinstance(tree, dict) and len(tree) == 1, f"results must be a tree, got {tree!r}")
    ((kind, parts),) = tree.items()
    if kind == "dict" and isinstance(parts, dict):
        return {name: fill(part, leaf) for name, part in cast(dict[str, Any], parts).items()}
    _require(kind in ("list", "tuple") and isinstance(parts, list), f"results have no nodes of kind {kind!r}")
    found = [fill(part, leaf) for part in cast(list[Any], parts)]
    return tuple(found) if kind == "tuple" else found


def _host(text: str) -> Host:
    content: dict[str, Any] = parsed_json(text)
    return Host(**{**content, "key": tuple(content["key"])})


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ProgramError(message)
