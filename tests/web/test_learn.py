"""The figures of docs/learn on the pages that mkdocs builds: their numbers equal NumPy's."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

import tensorgrad as tg
from tensorgrad.tools.exporting import server

pytestmark = pytest.mark.web

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "learn").glob("*.md"))
FIGURES = ("values", "broadcasting", "backward", "matmul", "order", "convolution", "attention")
PHONE: ViewportSize = {"width": 360, "height": 740}
LAPTOP: ViewportSize = {"width": 1280, "height": 900}
CONFIGURATION = """
INHERIT: {root}/mkdocs.yml
docs_dir: {root}/docs
site_dir: {site}
hooks: [{root}/tools/learn.py]
plugins: []
exclude_docs: |
  /*
  !/assets
  !/learn
  !/gallery
  /gallery/*.md
nav: [{nav}]
"""
"""The site with the chapters alone: the whole of it takes minutes, and `test_site` builds it."""

TYPED = [((3, 1), (4,)), ((2, 1, 2), (3, 1)), ((), (2, 3)), ((1,), (1, 5)), ((2, 3), (2, 3)), ((4, 1), (1, 2))]
CONVOLUTIONS = [(5, 3, 1, 0, 1), (6, 2, 2, 0, 1), (7, 3, 1, 0, 2), (8, 4, 3, 2, 1), (4, 1, 2, 3, 3), (6, 3, 2, 2, 2)]
"""Extents of image and kernel, stride, padding and dilation."""
MINUS = "\N{MINUS SIGN}"

Opened: TypeAlias = Callable[..., Page]
Scheme: TypeAlias = Literal["light", "dark"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address at which the built chapters are served."""
    folder = tmp_path_factory.mktemp("learn")
    nav = ", ".join(f"learn/{page.name}" for page in PAGES)
    text = CONFIGURATION.format(root=ROOT, site=folder / "site", nav=nav)
    (folder / "mkdocs.yml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(folder / "mkdocs.yml")]
    done = subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with server(str(folder / "site")) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


@pytest.fixture
def opened(browser: Browser, address: str) -> Iterator[Opened]:
    """Opens a chapter; unhandled errors and requests to other hosts fail the test."""
    faults: list[str] = []
    contexts = []

    def open_page(name: str, scheme: Scheme = "light", size: ViewportSize = LAPTOP) -> Page:
        context = browser.new_context(viewport=size, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("request", lambda asked: None if asked.url.startswith(address) else faults.append(asked.url))
        page.goto(f"{address}/learn/{name}/")
        page.wait_for_selector("[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults


def array(page: Page, name: str, shape: tuple[int, ...] | None = None, which: int = 0) -> np.ndarray:
    """Returns the numbers that a grid shows, in the shape of its caption by default."""
    grid = page.locator(f'[data-name="{name}"]').nth(which)
    values = grid.locator(".learn-cell").evaluate_all("cells => cells.map((cell) => cell.dataset.value)")
    numbers = np.array([float(value) for value in values])
    if shape is None:
        shape = tuple(int(extent) for extent in re.findall(r"\d+", grid.locator(".learn-name span").inner_text()))
    return numbers.reshape(shape)


def cell(page: Page, name: str, position: int, which: int = 0) -> Locator:
    return page.locator(f'[data-name="{name}"]').nth(which).locator(".learn-cell").nth(position)


def marked(page: Page, name: str, kind: str, which: int = 0) -> list[int]:
    """Returns the positions of the marked cells of a grid."""
    grid = page.locator(f'[data-name="{name}"]').nth(which)
    marks = grid.locator(".learn-cell").evaluate_all("cells => cells.map((cell) => cell.dataset.mark ?? '')")
    return [position for position, mark in enumerate(marks) if mark == kind]


def says(page: Page) -> str:
    return page.inner_text(".learn-says")


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_label(label, exact=True).select_option(label=option)


def fill(page: Page, label: str, text: object) -> None:
    page.get_by_label(label, exact=True).fill(str(text))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chapters_fit_a_phone(opened: Opened, scheme: Scheme) -> None:
    backgrounds = set()
    for name in FIGURES:
        page = opened(name, scheme, PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
        wide = "nodes => nodes.filter((node) => node.getBoundingClientRect().right > innerWidth).length"
        assert page.locator(".learn, .learn *").evaluate_all(wide) == 0, name
        backgrounds.add(page.locator(".learn").evaluate("node => getComputedStyle(node).backgroundColor"))
        unnamed = page.locator(".learn :is(input, select)").evaluate_all(
            "all => all.filter((one) => !one.labels.length)"
        )
        assert not unnamed, name
    (background,) = backgrounds
    lightness = np.mean([int(part) for part in re.findall(r"\d+", background)[:3]])
    assert lightness > 200 if scheme == "light" else lightness < 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_can_be_read(opened: Opened, scheme: Scheme) -> None:
    """Marked cells, axes and parts have the contrast that WCAG requires of text, 4.5."""
    page = opened("broadcasting", scheme)
    cell(page, "da", 1).click()
    cell(page, "da", 1).hover()
    contrasts = page.evaluate(
        """() => [...document.querySelectorAll(".learn-cell[data-mark]")].map((cell) => {
          const channels = (node, name) => getComputedStyle(node)[name].match(/[\\d.]+/g).slice(0, 3).map(Number);
          const light = (rgb) => rgb.map((one) => one / 255).map((one) => one <= 0.04045 ? one / 12.92
            : ((one + 0.055) / 1.055) ** 2.4).reduce((sum, one, i) => sum + one * [0.2126, 0.7152, 0.0722][i], 0);
          const lights = ["text", "rect"].map((part) => light(channels(cell.querySelector(part), "fill")));
          const [low, high] = lights.sort((a, b) => a - b);
          return (high + 0.05) / (low + 0.05);
        })"""
    )
    assert len(contrasts) >= 6 and min(contrasts) >= 4.5


def test_shapes_that_are_typed_broadcast(opened: Opened) -> None:
    page = opened("broadcasting")
    for name, sign in (("add", "a + b"), ("multiply", "a \N{MULTIPLICATION SIGN} b")):
        choose(page, "Operation", sign)
        for a, b in TYPED:
            fill(page, "Shape of a", ", ".join(map(str, a)))
            fill(page, "Shape of b", f"({' '.join(map(str, b))})")
            x, y = array(page, "a", a), array(page, "b", b)
            shape = np.broadcast_shapes(a, b)
            function = getattr(np, name)
            assert np.array_equal(array(page, "c"), function(x, y)) and array(page, "c").shape == shape
            assert np.array_equal(array(page, "a", shape, which=1), np.broadcast_to(x, shape))
            assert np.array_equal(array(page, "b", shape, which=1), np.broadcast_to(y, shape))
            exact = tg.grad(lambda x, y, name=name: tg.sum(getattr(tg, name)(x, y)), argnums=(0, 1))(x, y)
            assert np.array_equal(array(page, "da", a), exact[0]) and np.array_equal(array(page, "db", b), exact[1])


def test_shapes_that_do_not_fit_get_the_librarys_message(opened: Opened) -> None:
    page = opened("broadcasting")
    refused = 0
    for a, b in itertools.product([(2,), (3, 2), (2, 4, 1)], [(3,), (4, 2), (3, 1, 5)]):
        fill(page, "Shape of a", ",".join(map(str, a)))
        fill(page, "Shape of b", ",".join(map(str, b)))
        try:
            tg.add(np.ones(a), np.ones(b))
            expect(page.locator(".learn-error")).to_have_count(0)
        except tg.errors.ShapeError as error:
            refused += 1
            expect(page.locator(".learn-error")).to_have_text("ShapeError: " + re.sub(r"^.*?:\d+: ", "", str(error)))
            assert page.locator('.learn-axes td[data-is="wrong"]').count() >= 2
    assert refused >= 3
    fill(page, "Shape of a", "2, y")
    expect(page.locator(".learn-error")).to_have_text(re.compile("A shape is whole numbers"))
    fill(page, "Shape of a", "100")
    fill(page, "Shape of b", "")
    expect(page.locator(".learn-error")).to_contain_text("at most 3 axes and 48 cells; the shapes broadcast to (100,)")


def test_a_cell_shows_what_it_is_made_of(opened: Opened) -> None:
    page = opened("broadcasting")
    cell(page, "c", 6).hover()
    assert says(page) == "c[1, 2] = a[1, 0] + b[2] = 2 + 30 = 32"
    assert marked(page, "a", "from") == [1] and marked(page, "b", "from") == [2]
    cell(page, "da", 1).hover()
    assert says(page) == "da[1, 0] = 1 + 1 + 1 + 1 = 4"
    assert marked(page, "dc", "from") == [4, 5, 6, 7] and page.locator(".learn-arrows > path").count() == 4
    page.mouse.move(0, 0)
    assert says(page).startswith("Point at a cell") and not marked(page, "dc", "from")
    cell(page, "a", 0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert says(page).startswith("a[2, 0] is read 4 times")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "b[0] = 10"
    page.keyboard.press("End")
    assert says(page).startswith("b[3] is read 3 times")
    page.evaluate("document.activeElement.blur()")
    assert says(page).startswith("a[2, 0]")  # what Enter kept
    cell(page, "c", 0).focus()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    assert says(page).startswith("Point at a cell")


def test_reductions(opened: Opened) -> None:
    page = opened("backward")
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}
    for name, kind, keepdims in itertools.product(("Ties", "Three axes"), reduce, (False, True)):
        choose(page, "Input", name)
        choose(page, "Reduction", kind)
        page.get_by_label("keepdims").set_checked(keepdims)
        x = array(page, "x")
        for axes in ((0,), (1,), tuple(range(x.ndim))):
            for axis in range(x.ndim):
                page.get_by_label(str(axis), exact=True).set_checked(axis in axes)
            y = reduce[kind](x, axis=axes, keepdims=keepdims)
            assert array(page, "y").shape == y.shape and np.allclose(array(page, "y"), y)
            kept = reduce[kind](x, axis=axes, keepdims=True)
            cotangent = array(page, "dy", kept.shape)
            ties = x == x.max(axes, keepdims=True)
            share = {"sum": 1, "mean": kept.size / x.size, "max": ties / ties.sum(axes, keepdims=True)}[kind]
            assert np.allclose(array(page, "dx"), cotangent * share * np.ones(x.shape))
            if kind == "max":
                assert np.array_equal(array(page, "mask", x.shape), ties)


def test_ties_are_shared(opened: Opened) -> None:
    page = opened("backward")
    choose(page, "Input", "Ties")
    choose(page, "Reduction", "max")
    x = array(page, "x")
    cell(page, "dy", 1).hover()
    ties = np.flatnonzero(x == x[1].max()) if x[1].max() == x.max() else 4 + np.flatnonzero(x[1] == x[1].max())
    assert marked(page, "dx", "to") == list(ties) and len(ties) == 3
    cell(page, "dx", int(ties[0])).hover()
    assert says(page) == "dx[1, 0] = dy[1] / 3 = 0.67: 3 cells are equal to the maximum, and share it evenly."
    cell(page, "x", 6).hover()
    assert says(page).startswith("dx[1, 2] = 0: it is not the maximum")
    cell(page, "y", 0).focus()
    assert says(page) == "y[0] = max(3, 7, 7, 2) = 7" and marked(page, "x", "to") == [1, 2]


def test_products_of_matrices(opened: Opened) -> None:
    page = opened("matmul")
    for name in ("Two matrices", "A batch of matrices", "A batch, and one matrix for all"):
        choose(page, "Example", name)
        choose(page, "Product", "C = A B")
        a, b = array(page, "A"), array(page, "B")
        assert np.array_equal(array(page, "C"), a @ b)
        choose(page, "Product", "dA = dC Bᵀ")
        dc = array(page, "dC")
        assert np.array_equal(array(page, "Bᵀ"), b.swapaxes(-1, -2))
        assert np.array_equal(array(page, "dA"), dc @ b.swapaxes(-1, -2))
        choose(page, "Product", "dB = Aᵀ dC")
        each = a.swapaxes(-1, -2) @ dc
        assert np.array_equal(array(page, "Aᵀ"), a.swapaxes(-1, -2))
        assert np.array_equal(array(page, "dB"), each.sum(0) if b.ndim < each.ndim else each)
    cell(page, "dB", 3).hover()
    assert marked(page, "Aᵀ", "from") == [2, 3, 8, 9] and marked(page, "dC", "from") == [1, 3, 5, 7]
    assert "summed over the batch" in says(page)
    terms, result = re.findall(rf"= ([^=]+) = ({MINUS}?\d+),", says(page))[0]
    numbers = eval(terms.replace("·", "*").replace(MINUS, "-"))
    assert numbers == int(result.replace(MINUS, "-")) == array(page, "dB").ravel()[3]
    choose(page, "Product", "C = A B")
    cell(page, "C", 5).hover()  # [1, 0, 1]
    assert marked(page, "A", "from") == [6, 7, 8] and marked(page, "B", "from") == [1, 3, 5]
    choose(page, "Example", "Two matrices")
    cell(page, "A", 4).focus()
    assert marked(page, "C", "to") == [4, 5, 6, 7] and marked(page, "B", "from") == [4, 5, 6, 7]
    page.keyboard.press("ArrowRight")
    assert says(page).startswith("A[1, 2]")


def convolved(size: int, window: int, stride: int, padding: int, dilation: int) -> tuple[np.ndarray, ...]:
    """Returns the convolution of the figure's image, and the gradients of its sum by image and kernel."""
    x = (3 * np.arange(size * size) % 10).reshape(size, size)
    w = (2 * np.arange(window * window) % 5 - 2).reshape(window, window)
    padded = np.pad(x, padding)
    out = (len(padded) - dilation * (window - 1) - 1) // stride + 1
    y, dx, dw = np.zeros((out, out)), np.zeros_like(padded), np.zeros_like(w)
    for i, j in np.ndindex(y.shape):
        place = np.ix_(*(stride * k + dilation * np.arange(window) for k in (i, j)))
        y[i, j] = np.sum(padded[place] * w)
        dx[place] += w
        dw += padded[place]
    inside = slice(padding, padding + size)
    return y, dx[inside, inside], dw


def test_convolutions(opened: Opened) -> None:
    page = opened("convolution")
    names = ("Input", "Kernel", "Stride", "Padding", "Dilation")
    for chosen in CONVOLUTIONS:
        for name, number in zip(names, chosen, strict=True):
            fill(page, name, number)
        y, dx, dw = convolved(*chosen)
        assert np.array_equal(array(page, "y"), y)
        assert np.array_equal(array(page, "dx", dx.shape), dx) and np.array_equal(array(page, "dw", dw.shape), dw)
    fill(page, "Padding", 0)
    fill(page, "Input", 4)
    fill(page, "Stride", 1)
    with pytest.raises(tg.errors.ShapeError) as refused:
        tg.conv2d(np.ones((1, 1, 4, 4)), np.ones((1, 1, 3, 3)), dilation=2)
    said = re.sub(r"^.*?:\d+: ", "", str(refused.value))
    expect(page.locator(".learn-error")).to_have_text(f"ShapeError: {said}")


def test_windows(opened: Opened) -> None:
    page = opened("convolution")
    choose(page, "Example", "Stride 2 with padding")
    assert page.get_by_label("Stride", exact=True).input_value() == "2"
    x, w = array(page, "x", (8, 8)), array(page, "w")
    cell(page, "y", 4).hover()  # [1, 1]: rows and columns 2 to 4 of the padded image
    window = [8 * row + column for row in (2, 3, 4) for column in (2, 3, 4)]
    assert marked(page, "x", "from") == window
    assert array(page, "y").ravel()[4] == np.sum(x.ravel()[window] * w.ravel())
    assert says(page).endswith(f"= {array(page, 'y').ravel()[4]:.0f}".replace("-", MINUS))
    cell(page, "x", 8 * 2 + 2).focus()
    assert marked(page, "y", "to") == [0, 1, 3, 4] and says(page).startswith("x[1, 1] lies in 4 windows")
    cell(page, "x", 0).hover()
    assert says(page).startswith("Padding: a zero")
    cell(page, "dw", 4).hover()
    assert len(marked(page, "x", "from")) == 9 and marked(page, "w", "from") == [4]


def test_attention(opened: Opened) -> None:
    page = opened("attention")
    q, k, v = (array(page, name, (5, 3)) for name in "QKV")
    scores = q @ k.T / np.sqrt(3)
    position = np.arange(5)
    masks = {
        "Causal": np.tril(np.ones((5, 5), bool)),
        "No mask": np.ones((5, 5), bool),
        "Causal, two words back": np.tril(np.ones((5, 5), bool)) & (position[:, None] - position < 2),
        "The last word is padding": np.broadcast_to(position < 4, (5, 5)),
    }
    for name, mask in masks.items():
        choose(page, "Mask", name)
        weights = np.exp(scores) * mask
        weights /= weights.sum(1, keepdims=True)
        assert np.allclose(array(page, "S", (5, 5)), scores, atol=1e-5)
        assert np.allclose(array(page, "M", (5, 5)), np.where(mask, scores, -np.inf), atol=1e-5)
        assert np.allclose(array(page, "P", (5, 5)), weights, atol=1e-5)
        assert np.allclose(array(page, "O", (5, 3)), weights @ v, atol=1e-5)
    choose(page, "Mask", "Causal")
    cell(page, "Q", 6).hover()
    assert says(page).startswith("“sat” takes 4 % the, 56 % cat, 40 % sat.")
    assert marked(page, "P", "to") == [10, 11, 12] and marked(page, "O", "to") == [6, 7, 8]
    cell(page, "P", 3).focus()
    assert says(page).startswith("“the” must not look at “on”")
    page.keyboard.press("ArrowLeft")
    assert "“sat”" in says(page)
    cell(page, "O", 3).hover()
    assert marked(page, "V", "from") == [0, 3]


def node(page: Page, number: int) -> tuple[float, float]:
    """Returns the value and the derivative shown at a node of the graph; NaN if there is none."""
    shown = page.locator(f'[data-node="{number - 1}"]')
    value, gradient = (shown.get_attribute(name) or "nan" for name in ("data-value", "data-gradient"))
    return float(value), float(gradient)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_a_graph_is_stepped(opened: Opened) -> None:
    page = opened("values")
    assert page.locator("[data-node]").count() == 5 and np.isnan(node(page, 3)).all()
    seen = []
    while page.get_by_role("button", name="Step", exact=True).is_enabled():
        press(page, "Step")
        seen.append(says(page))
    assert len(seen) == 7 and seen[0] == "Step 1, forward: node 3 is 2 \N{MULTIPLICATION SIGN} 3 = 6."
    assert "derivative of the result by itself is 1" in seen[3]
    assert seen[-1].startswith("Step 7, back through node 3: x gets 1 · 3 = 3") and "y gets 1 · 2 = 2" in seen[-1]
    assert node(page, 1) == pytest.approx((2, 3 + np.cos(2))) and node(page, 2) == pytest.approx((3, 2))
    page.locator('[data-node="2"]').hover()
    said = "Node 3 is \N{MULTIPLICATION SIGN} of x and y: its value is 6; the result changes by 1 for"
    assert says(page).startswith(said)
    page.mouse.move(0, 0)
    assert says(page) == seen[-1]
    press(page, "Back")
    assert node(page, 1)[1] == pytest.approx(np.cos(2)) and np.isnan(node(page, 2)[1])
    press(page, "Start")
    assert np.isnan(node(page, 5)).all()
    page.get_by_role("button", name="Step", exact=True).focus()
    page.keyboard.press("Enter")
    assert node(page, 3)[0] == 6


@pytest.mark.parametrize(
    ("formula", "inputs"),
    [
        ("(x + y) * (x - y)", {"x": 3.0, "y": 2.0}),
        ("-x^2 / (1 + sqrt(y)) + cos(x * y)", {"x": 1.5, "y": 4.0}),
        ("relu(a - b) * log(a) - tanh(b ** -2)", {"a": 2.0, "b": 0.5}),
        ("x*x*x", {"x": 2.0}),
    ],
)
def test_formulas_that_are_typed_are_differentiated(opened: Opened, formula: str, inputs: dict[str, float]) -> None:
    page = opened("order")
    fill(page, "Formula", formula)
    for name, at in inputs.items():
        fill(page, name, at)
    press(page, "End")
    functions = {name: getattr(np, name) for name in ("sqrt", "cos", "log", "tanh")}
    functions["relu"] = lambda x: np.maximum(x, 0)

    def value(**moved: float) -> float:
        return eval(formula.replace("^", "**"), {"__builtins__": {}}, {**functions, **inputs, **moved})

    assert node(page, page.locator("[data-node]").count())[0] == pytest.approx(value(), rel=1e-6)
    for name, at in inputs.items():
        slope = (value(**{name: at + 1e-6}) - value(**{name: at - 1e-6})) / 2e-6
        label = page.locator(f'[data-node][aria-label*=", {name},"]')
        assert float(label.get_attribute("data-gradient") or "nan") == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_what_is_no_formula_is_said(opened: Opened) -> None:
    page = opened("order")
    for formula, said in {
        "x +": "The formula ends too early.",
        "(x + y": "“)” is missing at the end.",
        "x & y": "“&” is not part of a formula here.",
        "foo(x)": "There is no foo; there are sin, cos, exp, log, tanh, sqrt, relu.",
        "x^y": "An exponent is a whole number, such as x^2.",
        "x y": "“y” comes too late: the formula is complete before it.",
        "+".join("abcdefghij"): "This page draws at most 16 nodes; here are 19.",
    }.items():
        fill(page, "Formula", formula)
        expect(page.locator(".learn-error")).to_have_text(said)
        assert not page.get_by_role("button", name="Step", exact=True).is_enabled()
    fill(page, "Formula", "x + 1")
    assert page.locator("[data-node]").count() == 3


def test_a_figure_fills_the_screen(opened: Opened) -> None:
    """In full screen, arrows still point to their cells."""
    page = opened("broadcasting")
    before = cell(page, "a", 0).bounding_box()
    press(page, "Full screen")
    page.wait_for_selector(":fullscreen")
    cell(page, "a", 2).hover()
    after, target = cell(page, "a", 0).bounding_box(), cell(page, "a", 11, which=1).bounding_box()
    assert before and after and target and after["width"] > 1.2 * before["width"]
    box = page.locator(".learn-arrows > path").nth(3).bounding_box()
    assert box is not None
    assert box["x"] + box["width"] == pytest.approx(target["x"] + target["width"] / 2, abs=8)
    assert box["y"] + box["height"] == pytest.approx(target["y"], abs=12)
    press(page, "Full screen")
    page.wait_for_selector(":fullscreen", state="detached")
