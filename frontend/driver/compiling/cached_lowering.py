"""Lowers a recipe for its device once: later runs, in other processes too, find the program on disk."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tensorgrad.driver.compiling.lowering import Interface, Lowered, Observers
from tensorgrad.driver.compiling.memory_search import lower_within_memory
from tensorgrad.driver.compiling.recipe import Choice, Recipe, passes_on_tensors
from tensorgrad.driver.storage.program_cache import FORMAT, Entry, ProgramCache
from tensorgrad.driver.storage.program_key import ProgramKey, key_of
from tensorgrad.surface.collector import without_collector

if TYPE_CHECKING:
    from tensorgrad.driver.device import CompileKernel, ProgramDevice


def lower_for_device(
    recipe: Recipe,
    choice: Choice,
    device: ProgramDevice,
    observers: Observers,
    compile_kernel: CompileKernel | None,
) -> Lowered:
    """Returns the program for the recipe's device, from the cache on a hit, else by tuning and lowering it.

    Args:
        recipe: What to compile.
        choice: Where the search starts.
        device: The recipe's device.
        observers: What follows it.
        compile_kernel: Called with kernels that are certain to be used, as soon as they are written.

    Raises:
        ProgramError: A pass rejects the program, or it exceeds the memory limit.
    """
    if recipe.tuning_seconds:
        from tensorgrad.driver.compiling.tuning import table_path

        choice = replace(choice, tuned=str(table_path(device)))
    cache = ProgramCache.from_environment() if _may_be_kept(recipe, choice, observers) else None
    if cache is None:
        _tune(recipe, choice, device, observers)
        return lower_within_memory(recipe, choice, device.target, observers, compile_kernel)
    cached = _CachedRecipe(recipe, choice, cache, _options(recipe, choice, device), observers)
    key, entry = cached.look_up()
    is_tuned = True
    if recipe.tuning_seconds and not (entry and entry.is_tuned):
        is_tuned = _tune(recipe, choice, device, observers)
        key, entry = cached.look_up()
    if entry is not None and entry.is_tuned == is_tuned:
        return cached.recalled(entry)
    lowered = lower_within_memory(recipe, choice, device.target, observers, compile_kernel)
    cached.keep(key, lowered, is_tuned)
    return lowered


def _tune(recipe: Recipe, choice: Choice, device: ProgramDevice, observers: Observers) -> bool:
    """Measures schedules for the kernels, if tuning is on; returns whether all have been tuned."""
    if not recipe.tuning_seconds:
        return True
    from tensorgrad.driver.compiling.tuning import tune_recipe

    with observers.phases.measure("tune"):
        return tune_recipe(recipe, choice, device)


@dataclass(frozen=True)
class _CachedRecipe:
    """The place of a recipe's program in the cache.

    Attributes:
        recipe: What to compile.
        choice: Where the search starts.
        cache: The programs on disk.
        options: What the program depends on besides the traced module, the schedules and the compiler.
        observers: What follows it.
    """

    recipe: Recipe
    choice: Choice
    cache: ProgramCache
    options: Mapping[str, object]
    observers: Observers

    @without_collector()
    def look_up(self) -> tuple[ProgramKey, Entry | None]:
        """Returns the program's cache key under the currently known schedules, and its entry in the cache."""
        with self.observers.phases.measure("cache"):
            try:
                schedules = "" if self.choice.tuned is None else Path(self.choice.tuned).read_bytes().hex()
            except FileNotFoundError:
                schedules = ""  # nothing has been measured yet
            key = key_of(self.recipe.traced, {**self.options, "schedules": schedules})
            return key, self.cache.read(key)

    def recalled(self, entry: Entry) -> Lowered:
        """Returns the program of an entry."""
        name = self.recipe.name
        logging.getLogger("tensorgrad.cache").info("%s: compiled before, found in %s", name, self.cache.folder)
        return Lowered(
            replace(entry.program, name=name),  # a lambda's has its line
            replace(self.choice, segments=entry.segments, frugal=entry.frugal),
            Interface(entry.parameters, entry.settings),
            dict(entry.memory_cost),
        )

    def keep(self, key: ProgramKey, lowered: Lowered, is_tuned: bool) -> None:
        """Writes a program to the cache."""
        entry = Entry(
            lowered.program,
            lowered.interface.parameters,
            lowered.interface.settings,
            lowered.choice.segments,
            lowered.choice.frugal,
            lowered.memory_cost,
            is_tuned,
            key.lines,
        )
        with self.observers.phases.measure("cache"):
            self.cache.write(key, entry)


def _may_be_kept(recipe: Recipe, choice: Choice, observers: Observers) -> bool:
    """Returns whether the program may be cached: only built-in passes produce it, and nothing is dumped."""
    if observers.dump is not None or recipe.edit_passes is not None or recipe.verify:
        return False
    return all(type(step).__module__.startswith("tensorgrad.") for step in passes_on_tensors(recipe, choice))


def _options(recipe: Recipe, choice: Choice, device: ProgramDevice) -> dict[str, object]:
    """Returns what the program depends on besides the traced module, the schedules and the compiler."""
    return {
        "format": FORMAT,
        "passes": [repr(step) for step in passes_on_tensors(recipe, choice)],
        "precision": repr(recipe.precision),
        "target": device.target.to_json(),
        "memory": [recipe.memory_limit, recipe.reserved_bytes, choice.segments, choice.frugal],
        "is_tuned_for": recipe.tuning_seconds > 0,
    }
