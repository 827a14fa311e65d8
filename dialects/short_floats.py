"""Floats of 16 bits, in which values are stored; arithmetic on them is in f32."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, bf16, f16

SHORT_FLOATS: dict[str, AnyFloat] = {"f16": f16, "bf16": bf16}
"""The types by name."""

UNIT_ROUNDOFF = {"f16": 2.0**-11, "bf16": 2.0**-8}
"""The largest relative error of rounding to each, where nothing overflows or underflows."""
