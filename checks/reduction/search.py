"""The reduction: applies edits as long as one of them makes the module smaller."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tensorgrad.checks.reduction import edits, kernels
from tensorgrad.checks.reduction.edits import Edit
from tensorgrad.checks.reduction.language import FORMS, UNFIT, Candidate, Language, with_smaller_extents
from tensorgrad.checks.reduction.minimizing import minimized, spread
from tensorgrad.errors import ProgramError

TOGETHER: tuple[Edit, ...] = (
    edits.drop_functions,
    edits.drop_results,
    edits.drop_unused,
    partial(edits.replace_by, edits.new_argument),
    kernels.expose_allocations,
    partial(edits.replace_by, edits.first_operand),
    partial(edits.replace_by, edits.last_operand),
    partial(edits.replace_by, edits.argument),
    partial(edits.replace_by, edits.zero),
    kernels.write_through,
    edits.inline_calls,
    kernels.drop_inputs,
    edits.drop_arguments,
    edits.drop_attributes,
)
"""Edits of which as many changes are applied as the failure allows; those that remove most come first."""


@dataclass(frozen=True)
class Reduced:
    """The result of a reduction.

    Attributes:
        text: The reduced module.
        before_ops: The number of ops of the original module.
        after_ops: The number of ops of the reduced module.
        tried: The number of modules checked.
        seconds: How long it took.
        finished: Whether no edit makes it smaller, rather than the time ran out.
    """

    text: str
    before_ops: int
    after_ops: int
    tried: int
    seconds: float
    finished: bool


class Reduction:
    """Reduces a module.

    Args:
        text: The module.
        language: How it is parsed; validity and printed form are determined from the text.
        check: Returns whether a module, given as text, fails; it must be deterministic.
        seconds: The time limit.
        progress: Called with the number of ops and of modules checked, after each check.
        name: The module's name in errors.

    Raises:
        ProgramError: The text is not IR, or its printed form doesn't fail.
    """

    def __init__(
        self,
        text: str,
        language: Language,
        check: Callable[[str], bool],
        seconds: float = float("inf"),
        progress: Callable[[int, int], None] = lambda ops, tried: None,
        name: str = "<module>",
    ):
        self._check = check
        self._progress = progress
        self._known: dict[str, bool] = {}
        self._start = time.monotonic()
        self._seconds = float("inf")
        self._tried = 0
        self._best: Candidate | None = None
        module, verifies = language.read_any(text, name)
        for form in FORMS:
            self._language = replace(language, verifies=verifies, form=form)
            if self._is_smaller_and_fails(self._written(partial(self._language.written, module))):
                break
        else:
            raise ProgramError(f"{name}: fails only as it is written: printed by tg-opt, it doesn't fail")
        self._seconds = seconds

    def run(self) -> Reduced:
        """Reduces the module until no edit makes it smaller, or the time runs out."""
        before = self._ops
        last: tuple[int, ...] = ()
        while self._found.size != last and not self._is_over:
            last = self._found.size
            self._alone(edits.return_early)
            for edit in TOGETHER:
                self._together(edit)
            self._shrink()
        seconds = time.monotonic() - self._start
        return Reduced(self._found.text, before, self._ops, self._tried, seconds, not self._is_over)

    @property
    def _found(self) -> Candidate:
        assert self._best is not None
        return self._best

    @property
    def _ops(self) -> int:
        return self._found.ops

    @property
    def _is_over(self) -> bool:
        return time.monotonic() - self._start >= self._seconds

    def _together(self, edit: Edit) -> None:
        """Applies as many changes of an edit as possible, as often as it helps."""
        last: tuple[int, ...] = ()
        while self._found.size != last and not self._is_over:
            last, base = self._found.size, self._found
            places = range(len(edit(base.module.clone())))
            minimized(places, lambda excluded, base=base: self._try(base, edit, excluded))

    def _alone(self, edit: Edit) -> None:
        """Applies one change of an edit, as often as it helps."""
        last: tuple[int, ...] = ()
        while self._found.size != last and not self._is_over:
            last, base = self._found.size, self._found
            count = len(edit(base.module.clone()))
            others = (sorted({*range(count)} - {place}) for place in spread(count))
            any(self._try(base, edit, excluded) for excluded in others)

    def _shrink(self) -> None:
        """Reduces extents, one after another."""
        last: tuple[int, ...] = ()
        while self._found.size != last and not self._is_over:
            last = self._found.size
            texts = with_smaller_extents(self._found.text)
            any(self._is_smaller_and_fails(self._written(lambda written=text: written)) for text in texts)

    def _try(self, base: Candidate, edit: Edit, excluded: Sequence[int]) -> bool:
        """Returns whether a module is smaller and fails with all changes of an edit except some."""

        def changed() -> str:
            module, out = base.module.clone(), frozenset(excluded)
            for place, change in enumerate(edit(module)):
                if place not in out:
                    change()
            if self._language.verifies:
                module.verify()
            return self._language.written(module)

        return self._is_smaller_and_fails(self._written(changed))

    def _written(self, write: Callable[[], str]) -> Candidate | None:
        """Returns a candidate, or `None` if it is invalid or already known."""
        try:
            text = write()
            return None if text in self._known or self._is_over else self._language.read(text)
        except (ProgramError, *UNFIT):
            return None

    def _is_smaller_and_fails(self, candidate: Candidate | None) -> bool:
        """Returns whether a module is smaller than the best one and fails; if so, it becomes the best one."""
        if candidate is None or (self._best is not None and candidate.size >= self._best.size):
            return False
        self._tried += 1
        fails = self._known[candidate.text] = self._check(candidate.text)
        if fails:
            self._best = candidate
        self._progress(self._ops if self._best is not None else candidate.ops, self._tried)
        return fails
