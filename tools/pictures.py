"""Draws the pictures of the README and of the site's home: what the compiler prints, what benchmarks state, and a run.

`python -m tensorgrad.tools.pictures` writes them to docs/pictures; a test compares those with new ones.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from html import escape
from itertools import takewhile
from math import floor, log2
from pathlib import Path
from typing import TypeAlias

import numpy as np

import tensorgrad as tg
from tensorgrad.tools import tg_opt

STYLE = """
svg { --page: #ffffff; --panel: #f6f8fa; --edge: #d0d7de; --text: #1f2328; --quiet: #59636e;
  --first: #0550ae; --second: #953800; --third: #116329; --fourth: #6639ba; }
@media (prefers-color-scheme: dark) {
  svg { --page: #0d1117; --panel: #161b22; --edge: #30363d; --text: #e6edf3; --quiet: #9198a1;
    --first: #79c0ff; --second: #ffa657; --third: #7ee787; --fourth: #d2a8ff; }
}
text { fill: var(--text); font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
text { white-space: pre; }
.code { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.title { font-weight: 600; }
.quiet { fill: var(--quiet); }
.page { fill: var(--page); }
.panel { fill: var(--panel); stroke: var(--edge); }
.line { stroke: var(--edge); fill: none; }
text.first, tspan.first, rect.first { fill: var(--first); }
text.second, tspan.second, rect.second { fill: var(--second); }
text.third, tspan.third, rect.third { fill: var(--third); }
text.fourth, tspan.fourth, rect.fourth { fill: var(--fourth); }
""".strip()
"""The style of all pictures: they have a background of their own, and follow the reader's light or dark theme."""


def drawing(width: int, height: int, title: str, marks: Sequence[str], style: str = "") -> str:
    """Returns a picture as SVG; `style` adds to that of all pictures."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}{style}</style>",
            f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
            *marks,
            "</svg>\n",
        ]
    )


def label(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    """Returns a line of text; `anchor` is SVG's `text-anchor`."""
    return f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(text, quote=False)}</text>'


# A line of Python, and what became of it


@dataclass(frozen=True)
class Excerpt:
    """A line to show of what the compiler printed.

    Attributes:
        pattern: What the next such line matches; its groups are shown, with `…` in place of the rest.
        part: The part of the Python line that it comes from, which colors it.
        depth: Its indentation.
    """

    pattern: str
    part: str = ""
    depth: int = 0


@dataclass(frozen=True)
class Panel:
    """A level of the compiler: its name, what it is for, the arguments of `tg-opt` that print it, the lines to show."""

    name: str
    note: str
    arguments: tuple[str, ...]
    excerpts: tuple[Excerpt, ...]


PYTHON = (("tg.relu(", "third"), ("x @ w", "first"), (" + b", "second"), (")", "third"))
"""The line of Python in parts, each with its color."""

SHAPES = ((8, 4), (4, 4), (4,))
"""The shapes of x, w and b."""

LEVELS = (
    Panel(
        "tg",
        "tensors, where derivatives and updates are added",
        (),
        (
            Excerpt(r"(%\w+ = tg\.dot_general %\w+, %\w+ ).*( : tensor<8x4xf32>, ).*", "first"),
            Excerpt(r"(%\w+ = tg\.broadcast .*)", "second"),
            Excerpt(r"(%\w+ = tg\.add %\w+, %\w+ : tensor<8x4xf32>, ).*", "second"),
            Excerpt(r"(%\w+ = tg\.relu .*)", "third"),
        ),
    ),
    Panel(
        "WGSL",
        "what a GPU runs",
        ("-p", "inference-pipeline{target=webgpu-default}", "-t", "wgsl"),
        (
            Excerpt(r"(@compute .*)"),
            Excerpt(r"(fn \w+\().*"),
            Excerpt(r"(for .*)", "first", 1),
            Excerpt(r"(v\d+ = v\d+ \+ b.*)", "first", 2),
            Excerpt(r"(\})", "first", 1),
            Excerpt(r"(if .*)", "", 1),
            Excerpt(r"(let v\d+ = v\d+ \+ b.*)", "second", 2),
            Excerpt(r"(b\d+\[.* = select.*)", "third", 2),
        ),
    ),
    Panel(
        "buf",
        "buffers, where all of it becomes a single kernel",
        ("-p", "lower-tg-to-buf,fuse"),
        (
            Excerpt(r"(buf\.kernel grid = \[8, 4\] ins\(%\w+, %\w+, %\w+ ).*( outs\(%\w+ ).*( \{)"),
            Excerpt(r"(linalg\.generic \{).* iterator_types = (\[.*\"reduction\"\]\} ).*", "first", 1),
            Excerpt(r"(%\w+ = arith\.mulf .*)", "first", 2),
            Excerpt(r"(%\w+ = arith\.addf .*)", "first", 2),
            Excerpt(r"(linalg\.generic \{).* iterator_types = (\[.*\]\} ).*", "second", 1),
            Excerpt(r"(%\w+ = arith\.addf .*)", "second", 2),
            Excerpt(r"(%\w+ = arith\.cmpf .*)", "third", 2),
            Excerpt(r"(%\w+ = arith\.select .*)", "third", 2),
        ),
    ),
    Panel(
        "LLVM IR",
        "what the CPU runs",
        ("-p", "inference-pipeline{target=cpu}", "-t", "llvm"),
        (
            Excerpt(r"(define void @\w+\(ptr %0, ptr %1, ptr %2, ptr %3, ).*"),
            Excerpt(r"(%\w+ = load <4 x float>, .*)", "first", 1),
            Excerpt(r"(%\w+ = call <4 x float> @llvm\.fmuladd\.v4f32\().*( %\w+\))", "first", 1),
            Excerpt(r"(%\w+ = fadd float .*)", "second", 1),
            Excerpt(r"(%\w+ = fcmp ole float %\w+, ).*", "third", 1),
            Excerpt(r"(%\w+ = select i1 %\w+, float ).*(, float .*)", "third", 1),
            Excerpt(r"(store float %\w+, ptr %\w+, ).*", "third", 1),
        ),
    ),
)
"""The levels in the picture, row by row."""


def printed(module: str, arguments: Sequence[str]) -> list[str]:
    """Returns the lines that `tg-opt` prints for a module."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as output:
        path = Path(folder, "line.mlir")
        path.write_text(module, encoding="utf-8")
        if tg_opt.main([str(path), *arguments]):
            raise RuntimeError(f"tg-opt fails with {arguments}")
    return output.getvalue().splitlines()


def abridged(match: re.Match[str]) -> str:
    """Returns the groups of a match, with `…` in place of the text around them."""
    spans = [match.span(number) for number in range(1, match.re.groups + 1)]
    gaps = zip((0, *(end for _, end in spans)), (*(start for start, _ in spans), len(match[0])), strict=True)
    between = ["…" if end > start else "" for start, end in gaps]
    return "".join(map("".join, zip(between, (*match.groups(), ""), strict=True)))


def excerpts(panel: Panel, module: str) -> list[tuple[str, str]]:
    """Returns the lines to show of a level, in the order printed, each with the part that colors it.

    Raises:
        LookupError: The compiler no longer prints such a line.
    """
    lines, shown = iter(printed(module, panel.arguments)), []
    for excerpt in panel.excerpts:
        match = next((match for line in lines if (match := re.fullmatch(excerpt.pattern, line.strip()))), None)
        if match is None:
            raise LookupError(f"{panel.name}: no further line matches {excerpt.pattern}")
        shown.append(("  " * excerpt.depth + abridged(match), excerpt.part))
    return shown


def levels() -> str:
    """Returns the picture of a line of Python at each level."""
    module = str(tg.trace(lambda x, w, b: tg.relu(x @ w + b), *SHAPES))
    width, margin, line = 476, 16, 17
    spans = "".join(f'<tspan class="{part}">{escape(text)}</tspan>' for text, part in PYTHON)
    marks = [
        label(margin, 32, "Python", "title"),
        f'<text x="{margin + 64}" y="32" class="code" style="font-size: 15px">{spans}</text>',
        label(2 * width + 2 * margin, 32, "one line of a model, and what it becomes", "quiet", "end"),
    ]
    top = 50
    for row in (LEVELS[:2], LEVELS[2:]):
        height = 40 + line * max(len(panel.excerpts) for panel in row)
        for column, panel in enumerate(row):
            left = margin + column * (width + margin)
            marks += [
                f'<rect class="panel" x="{left}" y="{top}" width="{width}" height="{height}" rx="6"/>',
                f'<text x="{left + 12}" y="{top + 22}"><tspan class="title">{panel.name}</tspan>'
                f'<tspan class="quiet">  {panel.note}</tspan></text>',
            ]
            for number, (text, part) in enumerate(excerpts(panel, module)):
                marks.append(label(left + 12, top + 46 + line * number, text, f"code {part}".strip()))
        top += height + margin
    return drawing(2 * width + 3 * margin, top, "A line of Python at every level of the compiler", marks)


# Times on the CPU beside other compilers

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks" / "README.md"

PEERS = {"PyTorch eager": "first", "torch.compile": "second", "jax.jit": "third", "IREE": "fourth"}
"""The columns of the benchmarks' table that are shown, each with its color."""


def ratios(text: str) -> Mapping[str, Mapping[str, float]]:
    """Returns each peer's time for a step divided by ours: the first table under "Native code" of the benchmarks."""
    section = text[text.index("## Native code") :]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\|.*\|$", section, re.M)]
    header, table = rows[0], takewhile(lambda row: row[0].startswith("`"), rows[2:])
    return {row[0].strip("`"): {peer: float(row[header.index(peer)]) for peer in PEERS} for row in table}


def cpu() -> str:
    """Returns the plot of the time of a training step on the CPU, beside other compilers."""
    title = "Time of a training step on a CPU, divided by tensorgrad's"
    left, right, bar, top = 96, 880, 13, 78
    table, bars = ratios(BENCHMARKS.read_text(encoding="utf-8")), []
    all_ratios = [ratio for times in table.values() for ratio in times.values()]
    first, last = floor(min(0, log2(min(all_ratios)))), log2(max(all_ratios))

    def place(ratio: float) -> float:
        return left + (log2(ratio) - first) / (last - first) * (right - left - 40)

    marks = [
        label(16, 30, title, "title"),
        label(right, 30, "two cores of an AMD Zen 5; logarithmic scale", "quiet", "end"),
    ]
    for number, (peer, part) in enumerate(PEERS.items()):
        marks.append(f'<rect class="{part}" x="{left + 130 * number}" y="44" width="11" height="11" rx="2"/>')
        marks.append(label(left + 130 * number + 17, 54, peer))
    for workload, times in table.items():
        marks.append(label(left - 12, top + len(PEERS) * bar / 2 + 4, workload, "code", "end"))
        for peer, ratio in times.items():
            start, end = sorted([place(1), place(ratio)])
            size = f'width="{end - start:.1f}" height="{bar - 2}"'
            bars.append(f'<rect class="{PEERS[peer]}" x="{start:.1f}" y="{top}" {size} rx="1"/>')
            bars.append(f'<text x="{end + 6:.1f}" y="{top + 10}" style="font-size: 11px">{ratio:g}</text>')
            top += bar
        top += 12
    for tick in (2**power for power in range(first, floor(last) + 1)):
        marks.append(f'<path class="line" d="M{place(tick):.1f} 70V{top - 4}"/>')
        marks.append(label(place(tick), top + 12, f"{tick:g}\N{MULTIPLICATION SIGN}", "quiet", "middle"))
    return drawing(right + 16, top + 26, title, [*marks, *bars])


# A training, as it runs

STEPS, EVERY, SECONDS, HELD = 200, 8, 10.0, 0.2
"""The number of steps, and of those between frames; the picture's length, and the part that holds the last frame."""

MOVING = """
.region {{ fill: none; stroke: var(--first); stroke-width: {row:g}; stroke-opacity: 0.18; }}
circle.first {{ fill: var(--first); }} circle.second {{ fill: var(--second); }}
.curve {{ fill: none; stroke: var(--fourth); stroke-width: 2; }}
.frame {{ opacity: 0; animation: frame {seconds:g}s step-end infinite; }}
.last {{ animation: last {seconds:g}s step-end infinite; }}
.cover {{ fill: var(--page); transform: translateX({width:g}px); animation: cover {seconds:g}s linear infinite; }}
@keyframes frame {{ 0% {{ opacity: 1; }} {each:.3f}% {{ opacity: 0; }} }}
@keyframes last {{ 0% {{ opacity: 0; }} {end:g}% {{ opacity: 1; }} }}
@keyframes cover {{ 0% {{ transform: none; }} {end:g}% {{ transform: translateX({width:g}px); }} }}
@media (prefers-reduced-motion: reduce) {{ .frame, .last, .cover {{ animation: none; }} }}
"""
"""The style of frames that follow each other; without animation the last one is shown."""

Box: TypeAlias = tuple[float, float, float, float]
"""The left, top, width and height of a part of the picture."""


def moons(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns points of two half moons, f32 of shape `[count, 2]`, and their classes."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % 2
    angles = np.pi * generator.random(count)
    sides = np.where(labels, -1.0, 1.0)
    centers = np.stack([np.where(labels, 0.5, -0.5), np.where(labels, 0.25, -0.25)], axis=1)
    points = centers + np.stack([np.cos(angles), sides * np.sin(angles)], axis=1)
    return (points + generator.normal(0, 0.12, points.shape)).astype(np.float32), labels.astype(np.int32)


def recorded(x: np.ndarray, labels: np.ndarray, grid: np.ndarray) -> tuple[list[float], list[np.ndarray]]:
    """Trains on points; returns the loss of each step, and the margin of class 1 on a grid before every few steps."""
    training = tg.compile(
        tg.nn.Sequential(tg.nn.Linear(2, 16), tg.nn.Tanh(), tg.nn.Linear(16, 16), tg.nn.Tanh(), tg.nn.Linear(16, 2)),
        loss=lambda model, x, labels: tg.cross_entropy(model(x), labels),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": x.shape, "labels": tg.spec(labels.shape, "i32")},
        device="cpu",
    )
    predict = training.attach(lambda model, x: model(x), inputs={"x": grid.shape})
    losses: list[float] = []
    frames: list[np.ndarray] = []
    for step in range(STEPS + 1):
        if step % EVERY == 0:
            logits = np.asarray(predict(x=grid))
            frames.append(logits[:, 1] - logits[:, 0])
        losses.append(float(training.step(x=x, labels=labels)))
    return losses, frames


def region(margins: np.ndarray, box: Box) -> str:
    """Returns the path of the places with positive margins: a stroke for each stretch of a row."""
    left, top, width, height = box
    rows, columns = margins.shape
    parts: list[str] = []
    for row, values in enumerate(margins):
        inside = values > 0
        edges = np.flatnonzero(inside[1:] != inside[:-1])
        crossings = edges + values[edges] / (values[edges] - values[edges + 1])
        ends = [*([0.0] if inside[0] else []), *crossings, *([columns - 1.0] if inside[-1] else [])]
        y = top + height * (row + 0.5) / rows
        for start, stop in zip(ends[::2], ends[1::2], strict=True):
            scale = width / (columns - 1)
            parts.append(f"M{left + scale * start:.1f} {y:.1f}h{scale * (stop - start):.1f}")
    return "".join(parts)


def training() -> str:
    """Returns the moving picture of a training: the boundary between two classes, and the loss."""
    rows, columns, span = 60, 81, (1.9, 1.5)
    field: Box = (16, 50, 456, 360)
    plot: Box = (540, 66, 324, 316)
    across, down = np.linspace(-span[0], span[0], columns), np.linspace(span[1], -span[1], rows)
    grid = np.stack(np.meshgrid(across, down), axis=-1).reshape(-1, 2).astype(np.float32)
    x, labels = moons(96)
    losses, frames = recorded(x, labels, grid)
    left, top, width, height = field
    marks = [
        label(16, 32, "A training step, 200 times", "title"),
        label(880, 32, "two classes of points, and where the model sees the second one", "quiet", "end"),
        f'<rect class="panel" x="{left}" y="{top}" width="{width}" height="{height}" rx="6"/>',
    ]
    for number, margins in enumerate(frames):
        is_last = number == len(frames) - 1
        delay = f"{SECONDS * (1 - HELD) * number / (len(frames) - 1):.3f}s"
        kind = 'class="last"' if is_last else f'class="frame" style="animation-delay: {delay}"'
        step = label(plot[0] + plot[2], plot[1] + plot[3] + 30, f"step {EVERY * number}", "", "end")
        shape = f'<path class="region" d="{region(margins.reshape(rows, columns), field)}"/>'
        marks.append(f"<g {kind}>{shape}{step}</g>")
    for (across_at, down_at), kind in zip(x, labels, strict=True):
        at = (left + width * (across_at / span[0] + 1) / 2, top + height * (1 - down_at / span[1]) / 2)
        marks.append(f'<circle class="{"first" if kind else "second"}" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3.5"/>')
    left, top, width, height = plot
    most = max(losses)
    places = [
        f"{left + width * step / STEPS:.1f} {top + height * (1 - loss / most):.1f}" for step, loss in enumerate(losses)
    ]
    marks += [
        f'<path class="curve" d="M{"L".join(places)}"/>',
        f'<rect class="cover" x="{left - 2}" y="{top - 4}" width="{896 - left}" height="{height + 4}"/>',
        f'<path class="line" d="M{left - 4} {top - 4}V{top + height}H{left + width}"/>',
        label(left - 10, top + 8, f"{most:.2f}", "quiet", "end"),
        label(left - 10, top + height, "0", "quiet", "end"),
        label(left - 10, top + height / 2, "loss", "", "end"),
    ]
    each = 100 * (1 - HELD) / (len(frames) - 1)
    style = MOVING.format(row=field[3] / rows, seconds=SECONDS, width=width + 8, each=each, end=100 * (1 - HELD))
    return drawing(
        896, 426, "A training: the boundary between two classes of points moves, and the loss falls", marks, style
    )


FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"

PICTURES = {"levels.svg": levels, "cpu.svg": cpu, "training.svg": training}
"""The functions that draw each file of the folder."""


def main() -> None:
    """Draws all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
