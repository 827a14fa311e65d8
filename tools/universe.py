"""Our dialects, passes and targets for `xdsl-opt` and other xDSL tools, through the entry point `xdsl.universe`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.target import Target

from tensorgrad.passes.registry import PASSES


def _tg() -> Dialect:
    from tensorgrad.dialects.tg import Tg

    return Tg


def _buf() -> Dialect:
    from tensorgrad.dialects.buf_control import Buf

    return Buf


def _wgsl() -> Dialect:
    from tensorgrad.dialects.wgsl import Wgsl

    return Wgsl


def _cpu() -> Dialect:
    from tensorgrad.dialects.cpu import Cpu

    return Cpu


def _stablehlo() -> Dialect:
    from tensorgrad.dialects.stablehlo import Stablehlo

    return Stablehlo


def _chlo() -> Dialect:
    from tensorgrad.dialects.stablehlo import Chlo

    return Chlo


def _trace_optimizer() -> type[ModulePass]:
    from tensorgrad.tools.trace_optimizer import TraceOptimizerPass

    return TraceOptimizerPass


def wgsl_target() -> type[Target]:
    """Returns the target `wgsl` of `tg-opt`, instead of upstream's."""
    from tensorgrad.passes.codegen.wgsl.emit_wgsl import WgslTarget

    return WgslTarget


def llvm_target() -> type[Target]:
    """Returns the target `llvm` of `tg-opt`, instead of upstream's."""
    from tensorgrad.passes.codegen.llvm.emit_llvm import LlvmTarget

    return LlvmTarget


def asm_target() -> type[Target]:
    """Returns the target `asm`: the assembly of this machine."""
    from tensorgrad.tools.assembly import AssemblyTarget

    return AssemblyTarget


def _stablehlo_target() -> type[Target]:
    from tensorgrad.passes.stablehlo.tg_to_stablehlo import StablehloTarget

    return StablehloTarget


def _tg_wgsl_target() -> type[Target]:
    """Returns the target under a different name: `xdsl-opt` has a `wgsl`, and refuses two targets of the same name."""
    from tensorgrad.passes.codegen.wgsl.emit_wgsl import WgslTarget

    @dataclass(frozen=True)
    class TgWgslTarget(WgslTarget):
        name = "tg-wgsl"

    return TgWgslTarget


TENSORGRAD_UNIVERSE = Universe(
    all_dialects={"tg": _tg, "buf": _buf, "wgsl": _wgsl, "cpu": _cpu, "stablehlo": _stablehlo, "chlo": _chlo},
    all_passes={"trace-optimizer": _trace_optimizer, **PASSES},
    all_targets={"tg-wgsl": _tg_wgsl_target, "asm": asm_target, "stablehlo": _stablehlo_target},
)
"""Our dialects, passes and targets; each is imported when it is used."""
