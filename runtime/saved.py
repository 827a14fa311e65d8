"""The contents of a file: one program or two that share memory, their parameters, and their host-side state.

A function is one program. A training step is one, or two if gradients are accumulated: the first runs a step's last
micro-batch, which updates the parameters, and the second the micro-batches before it. The second shares the first one's
parameters and state, and may reuse its inputs and temporaries.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias, cast

import numpy as np

from tensorgrad.runtime.errors import MALFORMED, ProgramError
from tensorgrad.runtime.files import write_safetensors
from tensorgrad.runtime.program import (
    HEADER,
    PERSISTENT_ROLES,
    Program,
    ProgramRole,
    checked_state,
    constants_of,
    program_from_json,
    program_to_json,
    read_program_file,
    state_in,
)
from tensorgrad.runtime.schema import Finite, Rule, check, one_of, read, write
from tensorgrad.runtime.sharing import persistent_in
from tensorgrad.runtime.texts import json_text, parsed_json
from tensorgrad.runtime.weights import F32, packed

Tree: TypeAlias = str | dict[str, Any] | None
"""The structure of results: an output's name, None, or a node: `{"dict": {name: tree}}`, `{"list": [tree, ...]}` or
`{"tuple": [tree, ...]}`."""

FUNCTION, STEP = "function", "step"
STEP_KEY = "fold_in(key(seed), call)"
"""The formula of a call's random key; calls count from 1, and each micro-batch is a call."""
OTHERS = "accumulate"
"""The name of the program for all micro-batches but the last, and the prefix of its constants' names."""


Count: TypeAlias = Annotated[int, Rule("a number from 0", lambda value: 0 <= value < 1 << 63)]
Word: TypeAlias = Annotated[int, Rule("a word", lambda value: 0 <= value < 1 << 32)]


@dataclass(frozen=True)
class Host:
    """The host-side part of a program.

    Attributes:
        kind: "function", or "step" for a training step.
        results: The structure of the results.
        made: The inputs that the host computes itself, by name: random keys, by `STEP_KEY`.
        key: The seed's key, two words.
        step_count: The number of steps that have run.
        accumulate: The number of micro-batches in a step.
        accumulated: The number of micro-batches of the current step that have run.
        settings: The values that formulas read, except `step` and `micro_step`.
    """

    kind: Annotated[str, one_of(FUNCTION, STEP)]
    results: Tree
    made: Mapping[str, str] = field(default_factory=dict[str, str])
    key: tuple[Word, Word] = (0, 0)
    step_count: Count = 0
    accumulate: Count = 1
    accumulated: Count = 0
    settings: Mapping[str, Finite] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Saved:
    """The contents of a file.

    Attributes:
        program: The program; of a step with micro-batches, the one that runs the last.
        state: The values of all parameters and state, by name.
        host: The host-side part, or `None` for a bare program.
        others: The program that runs the micro-batches before the last.
    """

    program: Program
    state: Mapping[str, np.ndarray]
    host: Host | None = None
    others: Program | None = None

    def save(self, path: str | os.PathLike[str], weights: str = F32) -> None:
        """Writes the file, which is replaced atomically.

        Args:
            path: The file.
            weights: How it stores parameters; see `packed`.

        Raises:
            ProgramError: A program is malformed.
            InputError: The state doesn't match the program, or can't be stored so.
            OSError: The file can't be written.
        """
        self.validate()
        metadata = {**HEADER, "program": program_to_json(self.program)}
        tensors = {**constants_of(self.program), **packed(checked_state(self.program, self.state), weights)}
        if self.host is not None:
            try:
                metadata["host"] = json_text(write(self.host))
            except (TypeError, ValueError) as error:
                raise ProgramError(f"results or settings are not JSON: {error}") from error
        if self.others is not None:
            metadata[OTHERS] = program_to_json(self.others)
            tensors |= constants_of(self.others, f"{OTHERS}/")
        write_safetensors(path, tensors, metadata)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Saved:
        """Reads a file written by this `save` or by `Program.save`.

        Raises:
            ProgramError: The file doesn't hold a program, or holds one that is malformed or of another format version.
            OSError: The file can't be read.
        """
        metadata, tensors = read_program_file(path)
        program = program_from_json(metadata.get("program", ""), tensors, str(path))
        others = None
        if OTHERS in metadata:
            others = program_from_json(metadata[OTHERS], tensors, str(path), f"{OTHERS}/")
        try:
            host = read(Host, parsed_json(metadata["host"])) if "host" in metadata else None
            result = Saved(program, state_in(program, tensors, str(path)), host, others)
            result.validate()
        except (*MALFORMED, ProgramError) as error:
            raise ProgramError(f"{path} holds a malformed program: {error}") from error
        return result

    def validate(self) -> None:
        """Checks that programs, state and host-side part match.

        Raises:
            ProgramError: They don't; says how.
        """
        host = self.host
        if self.others is not None:
            persistent_in(self.others, self.program)
            _require(host is not None and host.accumulate > 1, "a second program is for steps of micro-batches")
        if host is None:
            return
        check(host, ProgramError)
        missing = self.program.slots(*PERSISTENT_ROLES).keys() - self.state.keys()
        _require(not missing, f"there are no values of {', '.join(sorted(missing))}")
        _require(host.accumulated < host.accumulate, f"{host.accumulated} of {host.accumulate} micro-batches have run")
        _require((host.accumulate > 1) == (self.others is not None), "micro-batches need a second program")
        inputs = self.program.slots(ProgramRole.INPUT)
        for name, how in host.made.items():
            slot = inputs.get(name)
            fits = slot is not None and (slot.shape, slot.dtype) == ((2,), "u32")
            _require(how == STEP_KEY and fits, f"the host can't make input {name!r} by {how!r}")
        for program in (self.program, self.others):  # each of them computes what a micro-batch returns
            if program is not None:
                fill(host.results, program.slots(ProgramRole.OUTPUT).__getitem__)


def fill(tree: Tree, leaf: Callable[[str], Any]) -> Any:
    """Returns a tree of results with each output's name replaced by `leaf` of it.

    Raises:
        ProgramError: The tree is malformed.
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
    filled = [fill(part, leaf) for part in cast(list[Any], parts)]
    return tuple(filled) if kind == "tuple" else filled


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ProgramError(message)
