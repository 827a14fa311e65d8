"""Names that other libraries have, and what is meant by them here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

INSTEAD = {
    "cat": "tg.concat joins tensors",
    "concatenate": "tg.concat joins tensors",
    "flatten": "tg.reshape(x, -1) does that, and tg.nn.Flatten for some axes",
    "float32": "it is tg.f32 here",
    "functional": "functions are in tensorgrad itself, such as tg.relu",
    "int32": "it is tg.i32 here",
    "int64": "integers are tg.i32 or tg.u32",
    "manual_seed": "seeds are arguments: tg.compile(seed=0), tg.random.key(0)",
    "mse_loss": "tg.mse is that",
    "no_grad": "only tg.grad and tg.compile take derivatives; tg.stop_gradient(x) is a constant to them",
    "rand": "tg.random.uniform(key, shape) draws",
    "randn": "tg.random.normal(key, shape) draws",
    "save": "Training.save_checkpoint does that, and Training.save for programs, which tg.load runs",
    "unsqueeze": "tg.expand_dims does that",
    "view": "tg.reshape does that",
}
"""What is meant by names that other libraries have."""

METHODS = {
    "assign": "in the loss of tg.compile buffers have it, and parameters that are not trained",
    "backward": "tg.grad differentiates functions, and tg.compile losses",
    "detach": "tg.stop_gradient(x) does that",
    "view": "reshape does that",
    "to": "tg.cast changes the dtype, and device= says where to compute",
}
"""What other libraries' methods of tensors are called here."""


def nearest(name: str, names: Iterable[str]) -> str:
    """What a name may be meant for, as the end of a message: `; did you mean …?`, or nothing."""
    near = difflib.get_close_matches(name, [known for known in names if not known.startswith("_")], n=1)
    return f"; did you mean {near[0]}?" if near else ""


def unknown_name(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """The error for a name that a module of ours has not."""
    hint = f"; {INSTEAD[name]}" if name in INSTEAD else nearest(name, names)
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)


def unknown_method(name: str, names: Iterable[str]) -> AttributeError:
    """The error for a name that tensors have not."""
    hint = f"; {METHODS[name]}" if name in METHODS else nearest(name, names)
    return AttributeError(f"a tensor has no attribute {name!r}{hint}", name=name)
