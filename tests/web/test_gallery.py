"""The gallery's pages: each is built by its program, and works by mouse and keyboard."""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import numpy as np
import pytest
from matplotlib import image
from playwright.sync_api import Page, expect

import tensorgrad as tg

pytestmark = pytest.mark.web

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "web"
NAMES = ("char_gpt", "digits", "moons", "neural_field", "sine")
SMALL = {"CONTEXT": 16, "WIDTH": 32, "HEADS": 2, "LAYERS": 1, "BATCH": 8}
"""Sizes at which SwiftShader compiles and runs a GPT in seconds."""
OPTIONS = {"char_gpt": ["--steps", "2", "--device", "numpy"], "digits": ["--steps", "500", "--device", "numpy"]}
NAMED = ("button", "checkbox", "combobox", "radio", "slider", "spinbutton", "textbox", "img", "application", "region")

Opened: TypeAlias = Callable[[str], Page]


def loaded(name: str) -> ModuleType:
    """Imports the program of an example as a module."""
    specification = importlib.util.spec_from_file_location(f"web_{name}", EXAMPLES / name / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Creates the folder of an example, once."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("gallery") / name
            module = loaded(name)
            if name == "char_gpt":
                vars(module).update(SMALL)
            module.main(["--out", str(made[name]), *OPTIONS.get(name, [])])
        return made[name]

    return make


@pytest.fixture
def opened(site: tuple[Path, str], served: Page, folder_of: Callable[[str], Path]) -> Opened:
    """Opens the page of an example; errors in it and requests to other hosts fail the test."""
    expect.set_options(timeout=240_000)

    def open_page(name: str) -> Page:
        shutil.copytree(folder_of(name), site[0], dirs_exist_ok=True)
        served.goto(f"{site[1]}/index.html")
        return served

    return open_page


def ready(page: Page) -> Page:
    expect(page.locator("#live")).to_be_visible()
    return page


def step_of(page: Page) -> int:
    return int(page.inner_text("#step"))


def train(page: Page, steps: int) -> tuple[float, float]:
    """Trains for several steps; returns the first and last loss of the curve."""
    until = step_of(page) + steps
    page.click("#train")
    while step_of(page) < until:
        page.wait_for_timeout(100)
    page.click("#train")
    expect(page.locator("#train")).to_have_text("Train")
    expect(page.locator("#status")).to_have_text(f"Paused after {step_of(page)} steps.")
    label = page.get_attribute("#curve", "aria-label") or ""
    found = re.fullmatch(r"Loss up to step \d+: from (\S+) to (\S+)", label)
    assert found, label
    return float(found[1]), float(found[2])


def line(page: Page, places: list[tuple[float, float]]) -> None:
    """Drags the mouse over the pad; positions are fractions of its size."""
    box = page.locator("#area").bounding_box()
    assert box is not None
    points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places]
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=4)
    page.mouse.up()


@pytest.mark.parametrize("name", NAMES)
def test_it_is_accessible_and_fits_a_phone(opened: Opened, name: str) -> None:
    page = ready(opened(name))
    assert page.locator("h1").count() == 1 and page.title()
    roles = re.findall(r"^\s*- '?(\w+)(?: \"([^\"]+)\")?", page.locator("body").aria_snapshot(), re.MULTILINE)
    controls = [(role, title) for role, title in roles if role in NAMED]
    assert len(controls) >= 8
    assert all(title for _, title in controls), controls
    assert page.locator("input:not([type=radio]), select, button").count() >= 7
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("name", NAMES)
def test_without_webgpu_it_says_what_to_do(opened: Opened, served: Page, name: str) -> None:
    served.add_init_script("delete Navigator.prototype.gpu")
    page = opened(name)
    expect(page.locator("#notice")).to_contain_text("by WebGPU, and this browser doesn't offer it here")
    picture = page.get_by_role("img", name="in a browser with WebGPU")
    expect(picture).to_be_visible()
    picture.evaluate("image => image.decode()")
    expect(page.locator("#live")).to_be_hidden()


def test_a_curve_is_fitted_and_kept(opened: Opened, site: tuple[Path, str]) -> None:
    page = ready(opened("sine"))
    first, last = train(page, 16)
    assert last < 0.7 * first
    page.click("#keep")
    kept = step_of(page)
    expect(page.locator("#status")).to_have_text(f"Step {kept} is kept in this browser.")
    with page.expect_download() as started:
        page.click("#download")
    started.value.save_as(site[0] / "downloaded.tg")
    again = tg.load(site[0] / "downloaded.tg")
    assert isinstance(again, tg.LoadedTraining) and again.step_count == kept
    page.focus("#rate")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#rate-value") == "0.00891"
    page.select_option("#curve-name", "two")
    expect(page.locator("#status")).to_have_text("Curve: Two waves.")
    page.reload()
    assert step_of(ready(page)) == 0
    page.click("#restore")
    expect(page.locator("#status")).to_have_text(f"Resumed from step {kept}, kept in this browser.")
    assert step_of(page) == kept
    page.click("#reset")
    expect(page.locator("#status")).to_have_text("Started over.")
    assert step_of(page) == 0
    page.set_input_files("#open", site[0] / "downloaded.tg")
    expect(page.locator("#status")).to_have_text(f"Resumed from step {kept} of downloaded.tg.")
    page.set_input_files("#open", {"name": "odd.tg", "mimeType": "", "buffer": b"nothing"})
    expect(page.locator("#status")).to_contain_text("odd.tg")
    assert step_of(page) == kept


def test_two_moons_are_separated(opened: Opened) -> None:
    page = ready(opened("moons"))
    first, last = train(page, 20)
    assert last < first
    assert int(page.inner_text("#right").rstrip("%")) > 70
    line(page, [(0.2, 0.2)])
    expect(page.locator("#status")).to_have_text("Added a circle: 241 points.")
    page.check("input[value='1']")
    page.focus("#area")
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Space")
    expect(page.locator("#status")).to_have_text("Added a square: 242 points.")
    placed = page.locator("#points > :last-child")
    assert placed.evaluate("node => node.tagName") == "rect"
    assert float(placed.get_attribute("x") or "nan") == pytest.approx(-2.5 * 4 / 32 - 0.0315, abs=1e-6)
    page.select_option("#cloud", "rings")
    expect(page.locator("#status")).to_have_text("Two rings: 240 points.")


def test_digits_are_read_and_learned(opened: Opened) -> None:
    page = ready(opened("digits"))
    assert int(page.inner_text("#right").rstrip("%")) > 85
    expect(page.locator("#status")).to_have_text("This 7 is a sample: what you draw replaces it.")
    expect(page.locator("#answer")).to_have_text("7")
    angles = np.linspace(0, 2 * np.pi, 17)
    line(page, [(0.5 + 0.2 * np.sin(angle), 0.5 - 0.3 * np.cos(angle)) for angle in angles])
    expect(page.locator("#status")).to_contain_text("It reads a 0")
    assert page.locator("#strokes polyline").count() == 1
    expect(page.locator("#answer")).to_have_text("0")
    begin = step_of(page)
    page.click("#label-3")
    expect(page.locator("#status")).to_have_text("It has learned that this is a 3.")
    assert step_of(page) == begin + 12 and "1 drawing" in page.inner_text("#own")
    page.click("#clear")
    expect(page.locator("#answer")).to_be_empty()
    page.click("#label-3")
    expect(page.locator("#status")).to_have_text("Draw a digit first.")
    page.focus("#area")
    page.keyboard.press("Space")
    for _ in range(4):
        page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Space")
    expect(page.locator("#status")).to_contain_text("% sure.")
    assert len((page.locator("#strokes polyline").get_attribute("points") or "").split()) == 5
    expect(page.locator("#answer")).to_have_text(re.compile(r"\d"))


def test_a_gpt_is_trained_and_writes(opened: Opened) -> None:
    page = ready(opened("char_gpt"))
    assert step_of(page) == 2
    sample = page.text_content("#text") or ""
    assert sample.startswith("The ") and len(sample) == 204
    expect(page.locator("#status")).to_contain_text("This text is a sample")
    first, last = train(page, 4)
    assert last < first
    page.fill("#length", "20")
    page.fill("#prompt", "class ")
    page.press("#prompt", "Enter")
    expect(page.locator("#status")).to_have_text("Wrote 20 characters.")
    written = page.text_content("#text") or ""
    assert written.startswith("class ") and len(written) == 26
    page.fill("#prompt", "\N{SNOWMAN}")
    page.click("#write")
    expect(page.locator("#status")).to_have_text("The training text does not contain \N{SNOWMAN}.")


def test_a_field_learns_a_picture(opened: Opened) -> None:
    page = ready(opened("neural_field"))
    first, last = train(page, 6)
    assert last < first
    shown = "canvas => Array.from(canvas.getContext('2d').getImageData(8, 8, 1, 1).data)"
    page.fill("#zoom", "4")
    expect(page.locator("#zoom-value")).to_contain_text("4")
    zoomed = page.locator("#target").evaluate(shown)
    page.fill("#zoom", "1")
    assert page.locator("#target").evaluate(shown) != zoomed
    picture = io.BytesIO()
    image.imsave(picture, np.tile(np.array([[[200, 20, 20]]], np.uint8), (30, 50, 1)), format="png")
    page.set_input_files("#file", {"name": "red.png", "mimeType": "image/png", "buffer": picture.getvalue()})
    expect(page.locator("#status")).to_have_text("Training on red.png from the next step on.")
    assert page.locator("#target").evaluate(shown) == [200, 20, 20, 255]
    page.set_input_files("#file", {"name": "odd.png", "mimeType": "image/png", "buffer": b"nothing"})
    expect(page.locator("#status")).to_have_text("odd.png is not a picture that this browser can read.")
