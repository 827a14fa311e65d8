"""Files that generate text without the compiler: programs for a token, and for parts of a prompt, with one cache."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np

from tensorgrad.dialects.signature import Role, Slot, slots_attribute
from tensorgrad.driver.compiling.lowering import Observers, lower
from tensorgrad.driver.compiling.recipe import UNDECIDED, Recipe
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.nn.cache import KeyValueCache
from tensorgrad.nn.checks import positive
from tensorgrad.nn.module import Module, inference
from tensorgrad.nn.named_values import check_has_values
from tensorgrad.nn.values import check_kept, closed, opened
from tensorgrad.passes.pipelines import forward_passes
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.saved import CAPACITY, GENERATOR, LENGTH, LOGITS, STOP, TOKENS, Host, Saved
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target
from tensorgrad.runtime.weights import F32, WEIGHTS
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tracer import checked_module, trace_call

CACHE = "cache."
"""The prefix of the names of the cache's keys and values, which are the state of the programs."""


class Generating(Protocol):
    """A module that computes logits with a cache, as `tg.models.LanguageModel` does."""

    most_positions: int | None

    def empty_cache(self, capacity: int) -> KeyValueCache:
        """Returns an empty cache for one text."""
        ...

    def next_logits(self, tokens: Any, cache: KeyValueCache) -> tuple[Any, KeyValueCache]:
        """Returns the logits of the token after these, and the extended cache."""
        ...


def save_generator(
    model: Generating,
    path: str | os.PathLike[str],
    *,
    capacity: int = 256,
    prompt: int = 32,
    weights: str = F32,
    target: str = WEBGPU_DEFAULT.name,
) -> None:
    """Writes a language model to one file that generates text, by `tg.load` or in a web page.

    The file has the parameters and two programs, which change one cache of keys and values in place: one computes the
    logits after a token, the other after so many tokens of a prompt at a time. The cache itself takes no bytes of it.
    The tokens that end a text, `model.stops`, are in it.

    Args:
        model: An initialized `tg.models.LanguageModel`, or another module with its `most_positions`, `empty_cache` and
            `next_logits`; it is saved in its form for inference.
        path: The file, which is replaced atomically once it is complete.
        capacity: The most tokens of a text, prompt included.
        prompt: How many tokens of a prompt are read at a time; the rest, and with 1 all, are read one by one.
        weights: How the file stores f32 parameters of two or more axes: "f32", "f16" or "int8"; see `Inference.save`.
        target: What to compile for: a profile such as "webgpu-default", which every WebGPU device runs; the path of a
            JSON file; or inline JSON.

    Raises:
        OptionError: The model is none that generates, or there are no such weights.
        ParameterError: The model is declared, and has no values.
        ShapeError: The capacity or the part of a prompt is not a positive integer, the part exceeds the capacity, or
            the capacity the model's positions.
        InputError: A parameter can't be stored so: it is not finite, or too large for f16.
        TargetError: There is no such target, or a program doesn't fit it.
        OSError: The file can't be written; what was there before is still there.

    Example:
        >>> import tempfile
        >>> options = tg.models.GPT2Options(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=4)
        >>> model = tg.models.GPT2LMHeadModel(options).initialized(0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tg.save_generator(model, f"{folder}/model.tg", capacity=32, prompt=8)
        ...     generator = tg.load(f"{folder}/model.tg", device="wgpu")
        >>> generator.generate([1, 2, 3], max_new_tokens=4) == model.generate([1, 2, 3], 4, device="numpy")[0].tolist()
        True
    """
    if not isinstance(model, Module) or not hasattr(model, "next_logits"):
        raise OptionError(f"save_generator takes a language model, got {type(model).__name__}")
    if weights not in WEIGHTS:
        raise OptionError(f"save_generator: weights must be one of {', '.join(WEIGHTS)}, got {weights!r}")
    chosen = Target.from_spec(target)
    check_has_values("save_generator", model.parameters())
    capacity, prompt = positive("save_generator", capacity=capacity, prompt=prompt)
    most = model.most_positions
    if prompt > capacity or (most is not None and capacity > most):
        what = f"the model's {most} positions" if prompt <= capacity else f"a part of a prompt of {prompt} tokens"
        verb = "exceeds" if prompt <= capacity else "is less than"
        raise ShapeError(f"{user_line()}: save_generator: a capacity of {capacity} tokens {verb} {what}")
    form = inference(model)
    programs = [_program(form, capacity, count, chosen) for count in ((1, prompt) if prompt > 1 else (1,))]
    leaves = {**form.named_parameters(), **form.named_buffers()}
    values = {name: np.asarray(leaf) for name, leaf in leaves.items()}
    stops = {f"{STOP}{number}": float(token) for number, token in enumerate(getattr(model, "stops", ()))}
    host = Host(GENERATOR, LOGITS, settings={CAPACITY: float(capacity), **stops})
    Saved(programs[0], values, host, programs[1] if prompt > 1 else None).save(path, weights)


def _program(model: Any, capacity: int, count: int, target: Target) -> Program:
    """Returns the program that reads so many tokens.

    Raises:
        TensorgradError: The model can't be traced, or the program doesn't fit the target.
    """
    name = "generate" if count == 1 else "read_prompt"
    empty = model.empty_cache(capacity)
    arguments = [opened(model), {"keys": empty.keys, "values": empty.values}]

    def step(module: Any, kept: Any, tokens: Any, length: Any) -> Any:
        cache = KeyValueCache(list(kept["keys"]), list(kept["values"]), length, np.zeros(1, np.int32))
        logits, cache = closed(module).next_logits(tokens, cache)
        check_kept(module, f"{user_line()}: {name}")
        return logits[0], [*cache.keys, *cache.values]

    buffers = model.named_buffers()
    owned, state = (trees.paths(argument) for argument in arguments)
    slots = [
        *(Slot(path, Role.STATE if path in buffers else Role.PARAMETER) for path in owned),
        *(state := [Slot(CACHE + path, Role.STATE) for path in state]),
        Slot(TOKENS, Role.INPUT),
        Slot(LENGTH, Role.INPUT),
    ]
    specs = [_specs(argument) for argument in arguments]
    integers = np.dtype(np.int32)
    traced, _ = trace_call(name, step, [*specs, Spec((1, count), integers), Spec((), integers)], slots)
    results = [Slot(LOGITS, Role.OUTPUT), *(Slot(slot.name, Role.UPDATE) for slot in state)]
    traced.properties["res_attrs"] = slots_attribute(results)
    recipe = Recipe(name, checked_module(traced), lambda _, target: forward_passes(target), None)
    program = lower(recipe, UNDECIDED, target, Observers(Phases(), None)).program
    program.check_fits(target)
    return program


def _specs(tree: Any) -> Any:
    """Returns a tree with a specification of each array."""
    leaves, rebuild = trees.flatten(tree)
    return rebuild([Spec(leaf.shape, leaf.dtype) for leaf in leaves])
