"""Draws the pictures of the README and of the site's home from what the compiler prints and the benchmarks state.

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


def drawing(width: int, height: int, title: str, marks: Sequence[str]) -> str:
    """Returns a picture as SVG."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
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


FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"

PICTURES = {"levels.svg": levels, "cpu.svg": cpu}
"""The functions that draw each file of the folder."""


def main() -> None:
    """Draws all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
