"""Every pass by name. A pass's module is imported when the pass is asked for, so that tools start quickly."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from xdsl.passes import ModulePass

CLASSES: dict[str, tuple[str, str]] = {
    "simplify": ("tensorgrad.passes.simplify", "SimplifyPass"),
    "outline-attention": ("tensorgrad.passes.outline_attention", "OutlineAttentionPass"),
    "remat": ("tensorgrad.passes.remat", "RematPass"),
    "grad": ("tensorgrad.passes.grad", "GradPass"),
    "jvp": ("tensorgrad.passes.jvp", "JvpPass"),
    "accumulate-gradients": ("tensorgrad.passes.accumulate_gradients", "AccumulateGradientsPass"),
    "append-sgd": ("tensorgrad.passes.append_sgd", "AppendSgdPass"),
    "append-adam": ("tensorgrad.passes.append_adam", "AppendAdamPass"),
    "append-adamw": ("tensorgrad.passes.append_adamw", "AppendAdamWPass"),
    "append-rmsprop": ("tensorgrad.passes.append_rmsprop", "AppendRmspropPass"),
    "append-adagrad": ("tensorgrad.passes.append_adagrad", "AppendAdagradPass"),
    "append-lion": ("tensorgrad.passes.append_lion", "AppendLionPass"),
    "append-adafactor": ("tensorgrad.passes.append_adafactor", "AppendAdafactorPass"),
    "append-muon": ("tensorgrad.passes.append_muon", "AppendMuonPass"),
    "inline-calls": ("tensorgrad.passes.inline_calls", "InlineCallsPass"),
    "recompute": ("tensorgrad.passes.recompute", "RecomputePass"),
    "lower-tg-to-buf": ("tensorgrad.passes.lower_tg_to_buf", "LowerTgToBufPass"),
    "fuse": ("tensorgrad.passes.fuse", "FusePass"),
    "lower-precision": ("tensorgrad.passes.lower_precision", "LowerPrecisionPass"),
    "split-reductions": ("tensorgrad.passes.split_reductions", "SplitReductionsPass"),
    "schedule": ("tensorgrad.passes.schedule", "SchedulePass"),
    "order-kernels": ("tensorgrad.passes.order_kernels", "OrderKernelsPass"),
    "share-dispatches": ("tensorgrad.passes.share_dispatches", "ShareDispatchesPass"),
    "plan-memory": ("tensorgrad.passes.plan_memory", "PlanMemoryPass"),
    "buf-to-upstream": ("tensorgrad.passes.buf_to_upstream", "BufToUpstreamPass"),
    "lower-buf-to-wgsl": ("tensorgrad.passes.lower_buf_to_wgsl", "LowerBufToWgslPass"),
    "relay-loops": ("tensorgrad.passes.relay_loops", "RelayLoopsPass"),
    "keep-ieee": ("tensorgrad.passes.keep_ieee", "KeepIeeePass"),
    "expand-math": ("tensorgrad.passes.expand_math", "ExpandMathPass"),
}
"""For each pass: the module and the class. They stand in the order in which they run."""

OPTIMIZERS = tuple(name.removeprefix("append-") for name in CLASSES if name.startswith("append-"))
"""The optimizers; the pass of one is called `append-` and its name."""


def pass_class(name: str) -> type[ModulePass]:
    """The class of the pass called `name`.

    Raises:
        KeyError: There is no such pass.
    """
    module, attribute = CLASSES[name]
    return cast("type[ModulePass]", getattr(import_module(module), attribute))


def _factory(name: str) -> Callable[[], type[ModulePass]]:
    return lambda: pass_class(name)


PASSES: dict[str, Callable[[], type[ModulePass]]] = {name: _factory(name) for name in CLASSES}
"""For each pass: what imports its class, as an `xdsl.universe.Universe` wants it."""
