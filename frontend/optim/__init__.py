"""Optimizers, which become part of the training step: built-in and custom ones, and their building blocks."""

from __future__ import annotations

from tensorgrad.optim import schedules
from tensorgrad.optim.averaging import weight_ema
from tensorgrad.optim.clipping import clip_gradients
from tensorgrad.optim.lbfgs import Minimum, minimize
from tensorgrad.optim.links import (
    add_decayed_weights,
    clip,
    ema,
    normalize,
    normalize_per_parameter,
    scale,
)
from tensorgrad.optim.matrices import adafactor, muon
from tensorgrad.optim.optimizers import (
    adagrad,
    adam,
    adamw,
    lion,
    rmsprop,
    scale_by_adagrad,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    scale_by_rmsprop,
    scale_by_sgd,
    sgd,
)
from tensorgrad.optim.schedules import Schedule
from tensorgrad.optim.stepping import SGD, Adagrad, Adam, AdamW, Lion, RMSprop, Stepper
from tensorgrad.optim.transforms import (
    Optimizer,
    Transformation,
    chain,
    clip_by_global_norm,
    masked,
    optimizer,
    transformation,
    zeros_of,
)
from tensorgrad.surface.calls import publish

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Lion",
    "Minimum",
    "Optimizer",
    "RMSprop",
    "Schedule",
    "Stepper",
    "Transformation",
    "adafactor",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "chain",
    "clip",
    "clip_by_global_norm",
    "clip_gradients",
    "ema",
    "lion",
    "masked",
    "minimize",
    "muon",
    "normalize",
    "normalize_per_parameter",
    "optimizer",
    "rmsprop",
    "scale",
    "scale_by_adagrad",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_rmsprop",
    "scale_by_sgd",
    "schedules",
    "sgd",
    "transformation",
    "weight_ema",
    "zeros_of",
]

publish(globals())
