"""ONNX models as modules: run them, differentiate them, fine-tune them. Needs the package `onnx`."""

from __future__ import annotations


try:
    import onnx as _onnx
except ImportError as error:
    raise ImportError("tensorgrad.onnx needs the package onnx: pip install 'tensorgrad-xdsl[onnx]'") from error

from tensorgrad.onnx.model import Input, OnnxModel, constant_inputs, load
from tensorgrad.onnx.rules import RULES

del _onnx


def supported() -> tuple[str, ...]:
    """The names of the ops that `load` understands, those of other domains behind the domain's name."""
    return tuple(sorted(f"{domain}.{name}" if domain else name for domain, name in RULES))


__all__ = ["Input", "OnnxModel", "constant_inputs", "load", "supported"]
