"""LLVM 22 counts booleans of wrong registers of AVX-512: what it would miscompile is generated for fewer features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.runtime.cpu import compiler

COUNTED = "%bits = bitcast <4 x i1> %mask to i4"
PRODUCTS = "call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %a, <32 x bfloat> %b, <32 x bfloat> %c)"
STORED = "call void @llvm.masked.store.v16f32.p0(<16 x float> %a, ptr %p, <16 x i1> %mask)"
GATHERED = """\
%v = tail call <4 x float> @llvm.masked.gather.v4f32.v4p0(<4 x ptr> %p, <4 x i1> {}, <4 x float> poison)
declare <4 x float> @llvm.masked.gather.v4f32.v4p0(<4 x ptr>, <4 x i1>, <4 x float>)"""
WIDE = GATHERED.replace("4 x", "16 x").replace("v4", "v16")
SCATTERED = "call void @llvm.masked.scatter.v4i1.v4p0(<4 x i1> splat (i1 true), <4 x ptr> %p, <4 x i1> {})"


@pytest.mark.parametrize(
    ("llvm", "features", "text", "changes"),
    [
        ("22.1.0", "+avx512f,+avx512vl", COUNTED, "-avx512vl"),
        ("22.1.0", "+avx512f,+avx512vl", "call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %mask)", "-avx512vl"),
        ("22.1.0", "+avx512f,+avx512vl", f"{COUNTED}\n{PRODUCTS}", "-avx512dq"),
        ("22.1.0", "+avx512f,+avx512vl", f"{COUNTED}\n{STORED}", "-avx512f"),
        ("22.1.0", "+avx512f,+avx512vl", f"{COUNTED}\n{STORED}\n{PRODUCTS}", "-avx512dq"),
        ("22.1.0", "+avx512f,+avx512vl", STORED, None),
        ("22.1.0", "+avx512f,+avx512vl", GATHERED.format("%mask"), "-avx512f"),
        ("22.1.0", "+avx512f,+avx512vl", GATHERED.format("splat (i1 true)"), None),
        ("22.1.0", "+avx512f,+avx512vl", WIDE.format("%mask"), None),
        ("22.1.0", "+avx512f,+avx512vl", WIDE.format("%mask") + "\n%y = trunc <16 x i8> %x to <16 x i1>", "-avx512f"),
        ("22.1.0", "+avx512f,+avx512vl", f"{WIDE.format('%mask')}\n{COUNTED}", "-avx512f"),
        ("22.1.0", "+avx512f,+avx512vl", SCATTERED.format("%mask"), "-avx512f"),
        ("22.1.0", "+avx512f,+avx512vl", SCATTERED.format("splat (i1 true)"), None),
        ("22.1.0", "+avx512f,+avx512vl", "%x = select <4 x i1> %mask, <4 x float> %a, <4 x float> %b", None),
        ("22.1.0", "+avx2", COUNTED, None),
        ("22.1.0", "+avx512f,+avx512vl,-avx512vl", COUNTED, None),
        ("20.1.8", "+avx512f,+avx512vl", COUNTED, None),
    ],
)
def test_features_that_are_left_out(
    llvm: str, features: str, text: str, changes: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = compiler.HostCpu("skylake-avx512", features, "x86_64-unknown-linux-gnu", llvm)
    monkeypatch.setattr(compiler, "host_cpu", lambda: host)
    monkeypatch.setattr(compiler, "machine", lambda changes="": changes)
    assert compiler.generator_of(text, None) == changes


def test_masked_stores_beside_gathers() -> None:
    """Without instructions for short vectors, LLVM 22 ended the process here."""
    x = np.random.default_rng(0).normal(size=(20, 5, 6)).astype(np.float32)

    def normalized(x: Any) -> Any:
        x = tg.swapaxes(x, -1, -2)
        largest = tg.max(abs(x), axis=(1, 2), keepdims=True)
        scale = tg.where(largest == 0, 1.0, largest)
        return scale, x / scale

    scale, result = tg.jit(normalized, device="cpu")(x)
    np.testing.assert_array_equal(scale, np.abs(x).max((1, 2), keepdims=True))
    np.testing.assert_allclose(result, np.swapaxes(x, 1, 2) / np.abs(x).max((1, 2), keepdims=True), rtol=1e-6)
