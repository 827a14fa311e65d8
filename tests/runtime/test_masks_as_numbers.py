"""LLVM 22 counts booleans of wrong registers of AVX-512: what it would miscompile is generated for fewer features."""

from __future__ import annotations

import pytest

from tensorgrad.runtime.cpu import compiler

COUNTED = "%bits = bitcast <4 x i1> %mask to i4"
PRODUCTS = "call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %a, <32 x bfloat> %b, <32 x bfloat> %c)"


@pytest.mark.parametrize(
    ("llvm", "features", "text", "changes"),
    [
        ("22.1.0", "+avx512f,+avx512vl", COUNTED, "-avx512vl"),
        ("22.1.0", "+avx512f,+avx512vl", "call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %mask)", "-avx512vl"),
        ("22.1.0", "+avx512f,+avx512vl", f"{COUNTED}\n{PRODUCTS}", "-avx512dq"),
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
