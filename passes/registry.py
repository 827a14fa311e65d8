"""All passes by name. The module of a pass is imported on first use, so that tools start quickly."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from xdsl.passes import ModulePass

CLASSES: dict[str, tuple[str, str]] = {
    "stablehlo-to-tg": ("tensorgrad.passes.stablehlo.stablehlo_to_tg", "StablehloToTgPass"),
    "simplify": ("tensorgrad.passes.tensors.simplify", "SimplifyPass"),
    "outline-attention": ("tensorgrad.passes.tensors.outline_attention", "OutlineAttentionPass"),
    "remat": ("tensorgrad.passes.tensors.remat", "RematPass"),
    "grad": ("tensorgrad.passes.tensors.grad", "GradPass"),
    "jvp": ("tensorgrad.passes.tensors.jvp", "JvpPass"),
    "accumulate-gradients": ("tensorgrad.passes.tensors.accumulate_gradients", "AccumulateGradientsPass"),
    "pack-updates": ("tensorgrad.passes.tensors.pack_updates", "PackUpdatesPass"),
    "append-updates": ("tensorgrad.passes.tensors.append_updates", "AppendUpdatesPass"),
    "distribute": ("tensorgrad.passes.tensors.distribute", "DistributePass"),
    "bucket-collectives": ("tensorgrad.passes.tensors.bucket_collectives", "BucketCollectivesPass"),
    "inline-calls": ("tensorgrad.passes.tensors.inline_calls", "InlineCallsPass"),
    "widen-bf16": ("tensorgrad.passes.tensors.widen_bf16", "WidenBf16Pass"),
    "widen-integers": ("tensorgrad.passes.tensors.widen_integers", "WidenIntegersPass"),
    "recompute": ("tensorgrad.passes.tensors.recompute", "RecomputePass"),
    "drop-unread-arguments": ("tensorgrad.passes.tensors.drop_unread_arguments", "DropUnreadArgumentsPass"),
    "tg-to-stablehlo": ("tensorgrad.passes.stablehlo.tg_to_stablehlo", "TgToStablehloPass"),
    "lower-tg-to-buf": ("tensorgrad.passes.buffers.lower_tg_to_buf", "LowerTgToBufPass"),
    "store-bf16-as-f32": ("tensorgrad.passes.buffers.store_bf16_as_f32", "StoreBf16AsF32Pass"),
    "fuse": ("tensorgrad.passes.buffers.fuse", "FusePass"),
    "lower-precision": ("tensorgrad.passes.buffers.lower_precision", "LowerPrecisionPass"),
    "round-factors": ("tensorgrad.passes.buffers.round_factors", "RoundFactorsPass"),
    "split-reductions": ("tensorgrad.passes.buffers.split_reductions", "SplitReductionsPass"),
    "split-kernels": ("tensorgrad.passes.buffers.split_kernels", "SplitKernelsPass"),
    "schedule": ("tensorgrad.passes.buffers.schedule", "SchedulePass"),
    "order-kernels": ("tensorgrad.passes.buffers.order_kernels", "OrderKernelsPass"),
    "share-dispatches": ("tensorgrad.passes.buffers.share_dispatches", "ShareDispatchesPass"),
    "overlap-collectives": ("tensorgrad.passes.buffers.overlap_collectives", "OverlapCollectivesPass"),
    "plan-memory": ("tensorgrad.passes.buffers.plan_memory", "PlanMemoryPass"),
    "cut-grids": ("tensorgrad.passes.buffers.cut_grids", "CutGridsPass"),
    "buf-to-upstream": ("tensorgrad.passes.buffers.buf_to_upstream", "BufToUpstreamPass"),
    "buffers-to-tensors": ("tensorgrad.passes.buffers.buffers_to_tensors", "BuffersToTensorsPass"),
    "tile": ("tensorgrad.passes.codegen.tile", "TilePass"),
    "lower-buf-to-wgsl": ("tensorgrad.passes.codegen.wgsl.lower_buf_to_wgsl", "LowerBufToWgslPass"),
    "lower-buf-to-cpu": ("tensorgrad.passes.codegen.llvm.lower_buf_to_cpu", "LowerBufToCpuPass"),
    "relay-loops": ("tensorgrad.passes.codegen.wgsl.relay_loops", "RelayLoopsPass"),
    "keep-ieee": ("tensorgrad.passes.codegen.wgsl.keep_ieee", "KeepIeeePass"),
    "expand-math": ("tensorgrad.passes.codegen.common.expand_math", "ExpandMathPass"),
    "convert-to-llvm": ("tensorgrad.passes.codegen.llvm.convert_to_llvm", "ConvertToLlvmPass"),
}
"""The module and class of each pass, in the order in which they run."""


def pass_class(name: str) -> type[ModulePass]:
    """Returns the class of the pass called `name`.

    Raises:
        KeyError: There is no such pass.
    """
    module, attribute = CLASSES[name]
    return cast("type[ModulePass]", getattr(import_module(module), attribute))


def _factory(name: str) -> Callable[[], type[ModulePass]]:
    return lambda: pass_class(name)


PASSES: dict[str, Callable[[], type[ModulePass]]] = {name: _factory(name) for name in CLASSES}
"""For each pass, a function that imports its class, as `xdsl.universe.Universe` expects."""
