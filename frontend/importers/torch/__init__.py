"""PyTorch modules as modules here, through `torch.export`. Needs the package `torch`."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ImportError("tg.from_torch needs the package torch: pip install torch")

from tensorgrad.importers.torch.model import TorchModule, from_torch
from tensorgrad.importers.torch.rules import FAMILIES, RULES
from tensorgrad.surface.calls import publish
from tensorgrad.surface.families import by_family


def supported() -> dict[str, tuple[str, ...]]:
    """Returns the names of PyTorch's ops that `tg.from_torch` knows, by family.

    Example:
        >>> from tensorgrad.importers import torch as importer
        >>> [name for names in importer.supported().values() for name in names if "grid_" in name]
        ['aten.affine_grid_generator', 'aten.grid_sampler', 'aten.grid_sampler_2d', 'aten.grid_sampler_3d']
    """
    return by_family(FAMILIES, {name: rule.function for name, rule in RULES.items()})


__all__ = ["TorchModule", "from_torch", "supported"]

publish(globals())
