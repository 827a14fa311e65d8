"""JAX's functions as modules here, through `jax.export`. Calls need the package `jax`."""

from __future__ import annotations

from tensorgrad.importers.jax.model import JaxModule, from_jax
from tensorgrad.surface.calls import publish

__all__ = ["JaxModule", "from_jax"]

publish(globals())
