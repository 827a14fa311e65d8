"""`python -m benchmarks quantized`: a LoRA step of SmolLM2-135M over weights of f32, bf16, int8, NF4, by precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorgrad as tg
from benchmarks.harness import Contestant, measure, report
from benchmarks.workloads import smollm2
from tensorgrad.driver.precision import Precision

FORMATS: dict[str, tuple[int, Precision]] = {
    "f32": (32, "f32"),
    "bf16": (16, "f32"),
    "int8": (8, "f32"),
    "nf4": (4, "f32"),
    "f32, bf16 products": (32, "bf16-products"),
    "bf16, bf16 products": (16, "bf16-products"),
    "int8, bf16 products": (8, "bf16-products"),
    "nf4, bf16 products": (4, "bf16-products"),
}
"""The bits of the weights of linear layers, and the precision, by the name in tables."""

RANK = 8

COUNTED = ("dispatches", "peak_bytes", "bytes_moved")


def adapted(bits: int, layers: int, vocabulary: int) -> Any:
    """Returns the model with adapters on all linear layers, whose weights are of so many bits."""
    model = smollm2.SmolLM2(vocabulary, layers)
    if bits == 16:
        for name, parameter in model.named_parameters().items():
            if len(parameter.shape) == 2 and name != "tokens.weight":
                parameter.dtype = tg.bf16
    model = model.initialized(0)
    if bits < 16:
        tg.nn.quantize(model, bits)
    tg.nn.lora(model, RANK)
    return model.initialized(1)


def contestant(name: str, device: tg.DeviceName, layers: int, vocabulary: int) -> Contestant:
    """Returns the step over weights of a format."""
    (bits, precision), batch = FORMATS[name], smollm2.batch(vocabulary)
    training = tg.compile(
        adapted(bits, layers, vocabulary),
        loss=smollm2.loss,
        optimizer=tg.optim.adamw(1e-3),
        inputs={name: tg.like(value) for name, value in batch.items()},
        device=device,
        precision=precision,
    )
    stats = training.stats()
    return Contestant(name, lambda: float(training.step(**batch)), {key: stats[key] for key in COUNTED})


def report_quantized(
    device: tg.DeviceName,
    rounds: int,
    seconds: float,
    out: Path,
    layers: int = smollm2.LAYERS,
    vocabulary: int = smollm2.VOCABULARY,
) -> None:
    """Times and reports the steps, alternating in one run; fewer layers and tokens make a smaller model."""
    contestants = [contestant(name, device, layers, vocabulary) for name in FORMATS]
    timings = measure(contestants, rounds, seconds)
    report("quantized", timings, timings[0].name, out / "quantized.json")
