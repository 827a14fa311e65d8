"""Compares tiled native attention with attention composed of matrix products and a softmax, which stores the scores.

First the workload `gpt`, with the same number of tokens in increasingly long rows: as compiled by default, composed,
and in PyTorch if it is installed. Then single attentions with all their cotangents, tiled and composed, with the ratio
measured and as estimated by `attention_cost`. Times are CPU times of the process, which are only comparable on one
thread: `TG_NUM_THREADS=1 OMP_NUM_THREADS=1`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from xdsl.passes import ModulePass

import tensorgrad as tg
from benchmarks.harness import Contestant, Timing, machine, measure, report
from benchmarks.peers import peers
from benchmarks.workloads import gpt
from benchmarks.workloads.transformer import Transformer
from tensorgrad.dialects.attention import Attention
from tensorgrad.driver.compiling.recipe import EditPasses
from tensorgrad.passes.tensors.attention_cost import composed_cycles, pays, tiled_cycles
from tensorgrad.passes.tensors.outline_attention import OutlineAttentionPass
from tensorgrad.runtime.target import CPU

TILED, COMPOSED = 1, 1 << 62
"""The number of scores from which an attention is outlined into one op: always, or never."""

LENGTHS = (64, 256, 1024)
"""The row lengths of the GPT's batches, each of 1024 tokens in total."""


@dataclass(frozen=True)
class Shape:
    """An attention's shape: batches times heads, the number of queries and of keys, and the features of a head."""

    groups: int
    length: int
    features: int
    causal: bool

    @property
    def attention(self) -> Attention:
        """The attention as the compiler describes it."""
        causal = 0 if self.causal else None
        length, features = self.length, self.features
        return Attention(self.groups, length, length, features, features, zeros=True, causal=causal, period=length)


SHAPES = [
    Shape(groups, length, features, causal)
    for causal in (True, False)
    for groups, length, features in [
        (64, 32, 32),
        (64, 64, 32),
        (64, 64, 64),
        (16, 256, 32),
        (16, 256, 64),
        (16, 256, 128),
        (4, 1024, 32),
        (4, 1024, 64),
        (4, 1024, 128),
        (1, 1024, 32),
        (1, 1024, 64),
    ]
]


@dataclass(frozen=True)
class Compared:
    """The times of both forms of an attention in milliseconds, the estimated ratio, and the compiler's choice."""

    shape: Shape
    tiled: float
    composed: float
    tiled_peak: int
    composed_peak: int
    estimated: float
    chosen: str


def outlining(fewest_scores: int) -> EditPasses:
    """Returns an edit of the passes that outlines attentions of at least this many scores, regardless of their cost."""

    def edit(passes: list[ModulePass]) -> Sequence[ModulePass]:
        return [
            OutlineAttentionPass(fewest_scores=fewest_scores, target=pass_.target)
            if isinstance(pass_, OutlineAttentionPass)
            else pass_
            for pass_ in passes
        ]

    return edit


class _Operands(tg.nn.Module):
    """Queries, keys and values as parameters, which stay on the device."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        normal = tg.initializers.normal(1.0)
        self.q, self.k, self.v = (
            tg.nn.param((shape.groups, shape.length, shape.features), init=normal) for _ in range(3)
        )


def _loss(shape: Shape) -> Any:
    def loss(model: _Operands, weights: tg.Tensor) -> tg.Tensor:
        q, k, v = (tg.reshape(x, (shape.groups, 1, *x.shape[1:])) for x in (model.q, model.k, model.v))
        attended = tg.nn.scaled_dot_product_attention(q, k, v, is_causal=shape.causal)
        return tg.sum(attended * weights)

    return loss


def forms(shape: Shape) -> list[tuple[tg.Training, Contestant]]:
    """Returns an attention with its cotangents, tiled and composed."""
    size = (shape.groups, 1, shape.length, shape.features)
    weights = np.random.default_rng(0).standard_normal(size, dtype=np.float32)
    results: list[tuple[tg.Training, Contestant]] = []
    for name, fewest in (("tiles", TILED), ("composed", COMPOSED)):
        training = tg.compile(
            _Operands(shape),
            loss=_loss(shape),
            optimizer=tg.optim.sgd(1e-6),
            inputs={"weights": tg.spec(size, "f32")},
            device="cpu",
            edit_passes=outlining(fewest),
        )
        assert ("native_attention" in training.module("buf")) == (fewest == TILED)
        step = Contestant(name, lambda t=training: float(t.step(weights=weights)))
        results.append((training, step))
    return results


def compare(shape: Shape, rounds: int, seconds: float) -> Compared:
    """Times an attention with its cotangents in both forms, in alternating blocks."""
    both_forms = forms(shape)
    tiled, composed = measure([step for _, step in both_forms], rounds, seconds, time.process_time)
    tiled_peak, composed_peak = (int(training.stats()["peak_bytes"]) for training, _ in both_forms)
    estimated = composed_cycles(shape.attention) / tiled_cycles(shape.attention)
    chosen = "tiles" if pays(shape.attention, CPU) else "composed"
    times = 1e3 * tiled.median, 1e3 * composed.median
    return Compared(shape, *times, tiled_peak, composed_peak, estimated, chosen)


def build_gpt(length: int, edit: EditPasses | None = None) -> tuple[tg.Training, dict[str, np.ndarray]]:
    """Returns a training step of the workload `gpt` with rows of a given length, and its batch."""
    rows = gpt.BATCH * gpt.LENGTH // length
    shape = tg.spec((rows, length), "i32")
    training = tg.compile(
        Transformer(gpt.VOCABULARY, length, gpt.WIDTH, gpt.HEADS, layers=4),
        loss=gpt.loss,
        optimizer=tg.optim.adamw(3e-4, weight_decay=0.1, decay="*.weight", clip_norm=1.0),
        inputs={"tokens": shape, "following": shape},
        device="cpu",
        edit_passes=edit,
    )
    text = np.random.default_rng(1).integers(0, gpt.VOCABULARY, (rows, length + 1)).astype(np.int32)
    return training, {"tokens": text[:, :-1], "following": text[:, 1:]}


def compare_gpt(length: int, rounds: int, seconds: float) -> list[Timing]:
    """Times a GPT as compiled by default, with composed attention, and in PyTorch."""
    contestants: list[Contestant] = []
    weights: dict[str, np.ndarray] = {}
    batch: dict[str, np.ndarray] = {}
    for name, edit in (("chosen", None), ("composed", outlining(COMPOSED))):
        training, batch = build_gpt(length, edit)
        weights = weights or training.parameters()
        training.load_parameters(weights)
        stats = training.stats()
        counts = {key: stats[key] for key in ("dispatches", "peak_bytes", "bytes_moved")}
        contestants.append(Contestant(name, lambda t=training, b=batch: float(t.step(**b)), counts))
    contestants.extend(peers("gpt", weights, batch, adapter=False, chosen=["torch"]))
    return measure(contestants, rounds, seconds, time.process_time)


def report_attention(rounds: int, seconds: float, out: Path) -> None:
    """Prints both tables, and writes them as JSON."""
    for length in LENGTHS:
        timings = compare_gpt(length, rounds, seconds)
        report(f"gpt, rows of {length}", timings, timings[0].name, out / f"attention gpt {length}.json")
    table = Table(title="an attention and its cotangents")
    sizes = ("groups", "length", "features", "causal")
    for column in (*sizes, "tiles, ms", "composed", "over tiles", "estimate", "chosen", "tiles, MB", "composed"):
        table.add_column(column, justify="right")
    comparisons = [compare(shape, rounds, seconds / 10) for shape in SHAPES]
    for comparison in comparisons:
        shape = comparison.shape
        table.add_row(
            *(str(value) for value in (shape.groups, shape.length, shape.features, shape.causal)),
            f"{comparison.tiled:.2f}",
            f"{comparison.composed:.2f}",
            f"{comparison.composed / comparison.tiled:.2f}",
            f"{comparison.estimated:.2f}",
            comparison.chosen,
            f"{comparison.tiled_peak / 1e6:.1f}",
            f"{comparison.composed_peak / 1e6:.1f}",
        )
    Console(width=max(140, Console().width)).print(table)
    out.mkdir(parents=True, exist_ok=True)
    data = {"machine": machine(), "shapes": [asdict(comparison) for comparison in comparisons]}
    (out / "attention.json").write_text(json.dumps(data, indent=1))
