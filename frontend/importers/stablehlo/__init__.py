"""StableHLO, which `jax.export` and other programs write, as functions here."""

from __future__ import annotations

from tensorgrad.importers.stablehlo.model import StablehloFunction, from_stablehlo
from tensorgrad.surface.calls import publish

__all__ = ["StablehloFunction", "from_stablehlo"]

publish(globals())
