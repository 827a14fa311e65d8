"""The contents of a file: one program or two that share memory, their parameters, and their host-side state.

A function is one program. A generator of text is one, or two: the first reads a token, and the second several tokens of
a prompt. A training step is one, or two if gradients are accumulated: the first runs a step's last
micro-batch, which updates the parameters, and the second the micro-batches before it. A second program shares the first
one's parameters and state, and may reuse its inputs and temporaries.
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

FUNCTION, STEP, GENERATOR = "function", "step", "generator"
TOKENS, LENGTH, LOGITS, CAPACITY = "tokens", "length", "logits", "capacity"
"""The inputs of a generator's programs, `[1, count]` tokens and the number of those before them, both i32; their
result, f32 for each token of the vocabulary; and the setting that says how many tokens a text may have."""
STOP = "stop/"
"""The prefix of a generator's settings whose values are the tokens that end a text, unless others are given."""
STEP_KEY = "fold_in(key(seed), call)"
"""The formula of a call's random key; calls count from 1, and each micro-batch is a call."""
OTHERS = "accumulate"
"""The name of the second program, and the prefix of its constants' names."""


Count: TypeAlias = Annotated[int, Rule("a number from 0", lambda value: 0 <= value < 1 << 63)]
Word: TypeAlias = Annotated[int, Rule("a word", lambda value: 0 <= value < 1 << 32)]


@dataclass(frozen=True)
class Host:
    """The host-side part of a program.

    Attributes:
        kind: "function", "step" for a training step, or "generator".
        results: The structure of the results.
        made: The inputs that the host computes itself, by name: random keys, by `STEP_KEY`.
        key: The seed's key, two words.
        step_count: The number of steps that have run.
        accumulate: The number of micro-batches in a step.
        accumulated: The number of micro-batches of the current step that have run.
        settings: The values that formulas read, except `step` and `micro_step`.
    """

    kind: Annotated[str, one_of(FUNCTION, STEP, GENERATOR)]
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
        state: The values of all parameters and state, by name; what a generator lacks of its state starts at zero.
        host: The host-side part, or `None` for a bare program.
        others: The program that runs the micro-batches before the last, or reads several tokens.
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
        tensors = {
            **constants_of(self.program),
            **packed(checked_state(self.program, self.state, self._is_generator), weights),
        }
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
            is_generator = host is not None and host.kind == GENERATOR
            result = Saved(program, state_in(program, tensors, str(path), is_generator), host, others)
            result.validate()
        except (*MALFORMED, ProgramError) as error:
            raise ProgramError(f"{path} holds a malformed program: {error}") from error
        return result

    @property
    def _is_generator(self) -> bool:
        return self.host is not None and self.host.kind == GENERATOR

    def validate(self) -> None:
        """Checks that programs, state and host-side part match.

        Raises:
            ProgramError: They don't; says how.
        """
        host = self.host
        if self.others is not None:
            persistent_in(self.others, self.program)
            has_second = self._is_generator or (host is not None and host.accumulate > 1)
            _require(has_second, "a second program is for steps of micro-batches")
        if host is None:
            return
        check(host, ProgramError)
        needed = (ProgramRole.PARAMETER,) if self._is_generator else PERSISTENT_ROLES
        missing = self.program.slots(*needed).keys() - self.state.keys()
        _require(not missing, f"there are no values of {', '.join(sorted(missing))}")
        _require(host.accumulated < host.accumulate, f"{host.accumulated} of {host.accumulate} micro-batches have run")
        if self._is_generator:
            check_generator(self)
        else:
            _require((host.accumulate > 1) == (self.others is not None), "micro-batches need a second program")
        inputs = self.program.slots(ProgramRole.INPUT)
        for name, how in host.made.items():
            slot = inputs.get(name)
            fits = slot is not None and (slot.shape, slot.dtype) == ((2,), "u32")
            _require(how == STEP_KEY and fits, f"the host can't make input {name!r} by {how!r}")
        for program in (self.program, self.others):  # each of them computes what a micro-batch returns
            if program is not None:
                outputs = program.slots(ProgramRole.OUTPUT)
                fill(host.results, lambda name, there=outputs: _require(name in there, f"there is no output {name!r}"))


def check_generator(saved: Saved) -> None:
    """Checks the programs of a generator.

    Raises:
        ProgramError: They take or return something else than those of a generator do, or there is no capacity.
    """
    assert saved.host is not None
    _require(saved.host.settings.get(CAPACITY, 0) >= 1, "a generator has a capacity")
    for is_first, program in ((True, saved.program), (False, saved.others)):
        if program is None:
            continue
        slots = program.slots(ProgramRole.INPUT, ProgramRole.SCALAR, ProgramRole.OUTPUT)
        count, vocabulary = ((0, *slots[name].shape)[-1] if name in slots else 0 for name in (TOKENS, LOGITS))
        expected = {TOKENS: ((1, count), "i32"), LENGTH: ((), "i32"), LOGITS: ((vocabulary,), "f32")}
        fits = {name: (slot.shape, slot.dtype) for name, slot in slots.items()} == expected
        fits = fits and vocabulary > 0 and (count == 1 if is_first else count > 1)
        _require(fits and saved.host.results == LOGITS, f"{program.name!r} is no program of a generator")


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
