"""The mkdocs output for docs/learn: the data of the figures, and the files that the chapters build."""

from __future__ import annotations

import json
import math
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_docs import python_of

import tensorgrad as tg
from tensorgrad.tools.figures import FIGURES, message, numbers
from tensorgrad.tools.learn import FILE, chapters, file_so_far, on_post_build, on_post_page

LEARN = Path(__file__).resolve().parents[2] / "docs" / "learn"


def arrayed(shape: Any, values: list[Any]) -> np.ndarray:
    return np.array([float(value) for value in values]).reshape(shape)


def found(values: dict[str, Any]) -> np.ndarray:
    return arrayed(values["shape"], values["values"])


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_drawn_on_a_page(name: str) -> None:
    assert (LEARN / f"{name}.js").exists()
    assert any(f'<div data-figure="{name}"></div>' in page.read_text(encoding="utf-8") for page in LEARN.glob("*.md"))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_holds_plain_data(name: str) -> None:
    page = on_post_page(f'<p>before</p><div data-figure="{name}"></div>')
    opening, data = page.split('<script type="application/json">')
    assert opening.startswith('<p>before</p><div class="learn"') and data.endswith("</script></div>")
    text = data.removesuffix("</script></div>")
    assert "</" not in text
    assert json.loads(text) == json.loads(json.dumps(FIGURES[name]()))


def test_numbers_are_short_and_infinities_text() -> None:
    assert numbers(np.array([[1 / 3, -np.inf], [2, 0]])) == [0.3333333, "-inf", 2.0, 0.0]


def test_a_message_has_no_place() -> None:
    assert message(lambda: tg.matmul(np.ones((2, 3)), np.ones((4, 3)))).startswith("matmul: inner extents differ")
    with pytest.raises(AssertionError, match="accepts what a figure shows as an error"):
        message(lambda: None)


def test_broadcasting_is_numpys() -> None:
    data = FIGURES["broadcasting"]()
    for preset in data["presets"]:
        shapes = preset["a"], preset["b"]
        if "add" not in preset:
            with pytest.raises(ValueError, match="broadcast"):
                np.broadcast_shapes(*shapes)
            continue
        for name, function in {"add": np.add, "mul": np.multiply}.items():
            case = preset[name]
            a, b = (arrayed(shape, case[key]) for shape, key in zip(shapes, "ab", strict=True))
            assert np.array_equal(arrayed(case["shape"], case["result"]), function(a, b))
            # What each cell is multiplied by, summed over its copies.
            factors = (b, a) if name == "mul" else (np.ones(()), np.ones(()))
            for shape, key, factor in zip(shapes, ("da", "db"), factors, strict=True):
                wide = np.broadcast_to(factor, case["shape"])
                readers = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), case["shape"])
                summed = np.bincount(readers.ravel(), wide.ravel(), math.prod(shape))
                assert np.array_equal(case[key], summed)


def test_reductions_are_numpys() -> None:
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}
    for given in FIGURES["reductions"]()["inputs"]:
        x = arrayed(given["shape"], given["x"])
        assert len(given["cases"]) == 3 * (2**x.ndim - 1)
        for name, case in given["cases"].items():
            kind, axes = name.split(" ")
            axes = tuple(map(int, axes.split(",")))
            kept = reduce[kind](x, axis=axes, keepdims=True)
            assert tuple(case["kept"]) == kept.shape and np.allclose(case["result"], kept.ravel())
            assert tuple(case["shape"]) == reduce[kind](x, axis=axes).shape
            cotangent = arrayed(kept.shape, case["cotangent"])
            count = x.size / kept.size
            ties = x == x.max(axes, keepdims=True)
            share = {"sum": 1, "mean": 1 / count, "max": ties / ties.sum(axes, keepdims=True)}[kind]
            assert np.allclose(arrayed(x.shape, case["gradient"]), cotangent * share * np.ones(x.shape))


def test_products_are_numpys() -> None:
    for preset in FIGURES["matmul"]()["presets"]:
        a, b, c, dc, da, db = (found(preset[name]) for name in ("A", "B", "C", "dC", "dA", "dB"))
        assert np.array_equal(c, a @ b) and np.array_equal(da, dc @ b.swapaxes(-1, -2))
        each = a.swapaxes(-1, -2) @ dc
        assert np.array_equal(db, each.sum(0) if b.ndim < each.ndim else each)


def test_graphs_have_the_derivatives_of_their_formulas() -> None:
    functions = {name: getattr(np, name) for name in ("sin", "exp", "tanh", "log")}
    for preset in FIGURES["graph"]()["presets"]:
        nodes = {node["name"]: node for node in preset["nodes"]}
        assert preset["nodes"][-1]["gradient"] == 1

        def value(preset: dict[str, Any] = preset, **moved: float) -> float:
            names = {**functions, **preset["inputs"], **moved}
            return eval(preset["formula"].replace("^", "**"), {"__builtins__": {}}, names)

        assert np.isclose(preset["nodes"][-1]["value"], value(), rtol=1e-5)
        for name, at in preset["inputs"].items():
            slope = (value(**{name: at + 1e-5}) - value(**{name: at - 1e-5})) / 2e-5
            assert nodes[name]["value"] == at and np.isclose(nodes[name]["gradient"], slope, atol=1e-4)


def test_convolutions_are_sums_over_windows() -> None:
    for preset in FIGURES["convolution"]()["presets"]:
        x, w, y, dx, dw = (found(preset[name]) for name in ("x", "w", "y", "dx", "dw"))
        stride, padding, dilation = preset["stride"], preset["padding"], preset["dilation"]
        padded = np.pad(x, padding)
        padded_dx, expected, expected_dw = np.zeros_like(padded), np.zeros_like(y), np.zeros_like(w)
        for i, j in np.ndindex(y.shape):
            rows, columns = (stride * k + dilation * np.arange(len(w)) for k in (i, j))
            place = np.ix_(rows, columns)
            expected[i, j] = np.sum(padded[place] * w)
            padded_dx[place] += w
            expected_dw += padded[place]
        inside = slice(padding, padding + len(x))
        assert np.array_equal(y, expected) and np.array_equal(dw, expected_dw)
        assert np.array_equal(dx, padded_dx[inside, inside])


def test_attention_is_softmax_of_the_scores() -> None:
    data = FIGURES["attention"]()
    count = len(data["words"])
    q, k, v = (arrayed((count, data["width"]), data[name]) for name in "qkv")
    scores = q @ k.T / np.sqrt(data["width"])
    assert np.allclose(data["scores"], scores.ravel(), atol=1e-5)
    for case in data["cases"]:
        mask = arrayed((count, count), case["mask"]) == 1
        assert [value == "-inf" for value in case["masked"]] == (~mask).ravel().tolist()
        weights = np.exp(scores) * mask
        weights /= weights.sum(1, keepdims=True)
        assert np.allclose(case["weights"], weights.ravel(), atol=1e-5)
        assert np.allclose(case["out"], (weights @ v).ravel(), atol=1e-5)
    assert np.array_equal(data["cases"][1]["mask"], np.tril(np.ones((count, count))).ravel())


def test_each_chapter_continues_the_one_before() -> None:
    last = chapters(LEARN / "tensorgrad.md")
    assert [page.stem for page in last][:2] == ["values", "broadcasting"] and len(last) == 11
    assert {page.stem for page in last} == {page.stem for page in LEARN.glob("*.md")} - {"index"}
    listed = (LEARN / "index.md").read_text(encoding="utf-8")
    assert all(listed.index(f"({one.name})") < listed.index(f"({other.name})") for one, other in pairwise(last))


def test_the_file_of_a_chapter_is_what_the_tests_run(tmp_path: Path, python: str) -> None:
    for page in chapters(LEARN / "tensorgrad.md"):
        (tmp_path / "learn" / page.stem).mkdir(parents=True)
        code = [line for line in file_so_far(page).splitlines() if line and not line.startswith("# ")]
        assert code == [line for line in python_of(page).splitlines() if line and not line.startswith("# ")]
    on_post_build({"docs_dir": str(LEARN.parent), "site_dir": str(tmp_path)})
    file = tmp_path / "learn" / "backward" / FILE
    done = subprocess.run([python, "-W", "error", file.name], cwd=file.parent, check=True, capture_output=True)
    assert b"0.67" in done.stdout
