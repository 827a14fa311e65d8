"""ONNX models as modules: run them, differentiate them, fine-tune them; and programs as ONNX files.

Needs the package `onnx`.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("onnx") is None:
    raise ImportError("tensorgrad.onnx needs the package onnx: pip install onnx")

from tensorgrad.exporters.onnx.saving import save
from tensorgrad.importers.onnx.model import OnnxModel, constant_inputs, load
from tensorgrad.importers.onnx.reading import Input
from tensorgrad.importers.onnx.rules import FAMILIES, RULES
from tensorgrad.surface.calls import publish
from tensorgrad.surface.families import by_family


def supported() -> dict[str, tuple[str, ...]]:
    """Returns the names of the ops that `load` supports, by family; ops of other domains are prefixed by the domain.

    Example:
        >>> tg.onnx.supported()["Resizing"]
        ('Resize', 'Upsample')
    """
    named = {f"{domain}.{name}" if domain else name: rule.function for (domain, name), rule in RULES.items()}
    return by_family(FAMILIES, named)


__all__ = ["Input", "OnnxModel", "constant_inputs", "load", "save", "supported"]

publish(globals())
