"""The page of a report in headless Chromium: links lead to the right lines, and nothing else is loaded."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import tensorgrad as tg

pytestmark = pytest.mark.web

ROOT = Path(__file__).resolve().parents[2]
VIEWS = ("code", "passes", "flow", "memory", "kernels")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the addition transformer, and one that compares two small programs."""
    folder = tmp_path_factory.mktemp("reports")
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        addition: Any = importlib.import_module("addition")
    finally:
        sys.path.remove(str(ROOT / "examples"))
    inputs = {"tokens": tg.spec((128, addition.LENGTH), "i32"), "result": tg.spec((128, 3), "i32")}
    training = tg.compile(
        addition.Adder(), loss=addition.loss, optimizer=tg.optim.adamw(1e-3), inputs=inputs, device="numpy"
    )
    training.report(folder / "addition.html")
    small = [
        tg.compile(
            tg.nn.Linear(4, width),
            loss=lambda model, x: tg.mean(model(x) ** 2),
            optimizer=tg.optim.sgd(0.1),
            inputs={"x": (3, 4)},
            device="cpu",
        )
        for width in (2, 3)
    ]
    with small[0].profile() as profile:
        small[0].step(x=[[0.0] * 4] * 3)
    small[0].report(folder / "small.html", beside=small[1], profile=profile)
    return folder


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which errors and requests fail the test."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: None if request.url.startswith("file:") else faults.append(request.url))
    yield page
    context.close()
    assert not faults


def opened(page: Page, path: Path) -> None:
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=true]", state="attached")


def line_of(text: str) -> int:
    """Returns the number of the first line of the addition transformer's source that contains a text."""
    lines = (ROOT / "examples" / "addition.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_a_line_of_python_leads_to_every_level_and_kernel_and_back(page: Page, reports: Path) -> None:
    opened(page, reports / "addition.html")
    assert page.locator("#files option:checked").inner_text().endswith("addition.py")
    number = line_of("return x + self.")
    source = page.locator(f".code[aria-label='Python source'] .row[data-n='{number}']")
    source.click()
    for level in page.locator("#levels option").all_inner_texts()[:4]:
        page.select_option("#levels", label=level)
        marked = page.locator(".code[aria-label='IR or kernel'] .row.marked")
        assert marked.count() > 0, level
        assert "current" in (source.get_attribute("class") or "")
    page.locator("#kernels button").first.click()
    assert "kernel" in page.locator("#levels option:checked").inner_text()
    assert "fn " in page.locator(".code[aria-label='IR or kernel']").inner_text()
    # In a kernel too, lines are from lines: of those that are marked, one leads back.
    marked = page.locator(".code[aria-label='IR or kernel'] .row.marked")
    assert 0 < marked.count() < page.locator(".code[aria-label='IR or kernel'] .row").count()
    assert "of this kernel" in page.locator("#note").inner_text()
    page.locator(".code[aria-label='IR or kernel'] .row.linked:not(.marked)").first.click()
    assert page.locator(".code[aria-label='Python source'] .row.marked").count() > 0
    marked.first.click()
    # The other way round: from a line of IR to its line of Python.
    page.select_option("#levels", index=1)
    page.locator(".code[aria-label='IR or kernel'] .row.linked:has-text('tg.log')").first.click()
    current = page.locator(".code[aria-label='Python source'] .row.current")
    assert "cross_entropy" in current.inner_text()


def test_every_view_draws(page: Page, reports: Path) -> None:
    assert (reports / "addition.html").stat().st_size < 3_000_000
    opened(page, reports / "addition.html")
    for number, view in enumerate(VIEWS, 1):
        page.keyboard.press(str(number))
        assert page.locator(f"nav button[data-view={view}]").get_attribute("aria-selected") == "true"
        if view in ("flow", "memory", "kernels"):
            page.wait_for_selector(".drawing[data-drawn=true] svg")
            assert page.locator(".drawing svg path").count() > 10
    page.keyboard.press("3")
    page.wait_for_selector(".drawing[data-drawn=true]")
    page.locator(".drawing svg .box[data-group][data-run]").first.click()
    page.locator(".drawing svg .box.dispatch").first.click()
    assert "Dispatch" in page.locator("#about h2").first.inner_text()
    page.locator("#about button.place").first.click()
    assert page.locator(".code[aria-label='Python source'] .row.current").count() == 1


def test_the_data_flow_by_module(page: Page, reports: Path) -> None:
    opened(page, reports / "addition.html")
    page.keyboard.press("3")
    boxes = page.locator(".drawing svg .box")
    module = page.locator("#modules button[data-module='blocks.0']")
    assert module.get_attribute("aria-expanded") == "true" and 10 < boxes.count() < 60
    page.locator("button:has-text('Close all')").click()
    # A closed module is a box of the loss and one of its derivative, so that no edge leads back.
    blocks = page.locator(".drawing svg .box[data-group='blocks']")
    assert blocks.count() == 2 and boxes.count() < 30
    heights = page.evaluate(
        "[...document.querySelectorAll('.flows path')].map((path) => [path.getPointAtLength(0).y,"
        " path.getPointAtLength(path.getTotalLength()).y])"
    )
    assert heights and all(top < bottom for top, bottom in heights)
    blocks.first.click()
    assert page.locator(".drawing svg .box[data-group='blocks.0']").count() == 2
    page.select_option("#coloring", value="bytes")
    assert page.locator(".drawing svg .box.heat").count() > 10
    assert "MB" in str(page.locator(".drawing svg .box[data-group='blocks.0'] text").nth(1).text_content())
    page.locator("button:has-text('Open all')").click()
    dispatches = page.locator(".drawing svg .box[data-run]").count()
    page.keyboard.press("5")
    assert dispatches == page.locator("#runs tbody tr").count()


def test_the_panel_of_a_kernel(page: Page, reports: Path) -> None:
    opened(page, reports / "addition.html")
    page.keyboard.press("5")
    page.locator("#runs tr[data-run='10']").click()
    panel = page.locator("#about")
    assert "blocks." in panel.inner_text() and "contraction" in panel.inner_text()
    assert "by the machine's model, not measured" in panel.inner_text()
    opened(page, reports / "small.html")
    page.keyboard.press("5")
    page.locator("#runs tr[data-run='0']").click()
    assert "of what this machine reaches" in panel.inner_text() and "GFLOP/s" in panel.inner_text()


def test_the_passes_as_a_film(page: Page, reports: Path) -> None:
    opened(page, reports / "addition.html")
    page.keyboard.press("2")
    page.locator("tr[data-pass]:has-text('grad')").click()
    assert "grad" in page.locator("#pass").inner_text()
    assert page.locator(".code .row.inserted").count() > 10
    page.keyboard.press("]")
    assert "pack-updates" in page.locator("#pass").inner_text()


def test_a_search_leads_to_ops_and_kernels(page: Page, reports: Path) -> None:
    opened(page, reports / "addition.html")
    page.keyboard.press("/")
    page.keyboard.type("tg.exp")
    found = page.locator("#found")
    found.locator("button", has_text="traced").first.click()
    current = page.locator(".code[aria-label='IR or kernel'] .row.current")
    assert "tg.exp" in current.inner_text()
    page.fill("#search", "contraction mlp")
    found.locator("button", has_text="dispatch").first.click()
    assert "contraction" in page.locator("#about").inner_text()
    page.fill("#search", "exp"[::-1] * 3)  # this file is part of the report
    found.locator("p", has_text="Nothing is found").wait_for()


def test_a_value_lights_up(page: Page, reports: Path) -> None:
    opened(page, reports / "addition.html")
    page.fill("#search", "tg.exp")
    page.locator("#found button", has_text="traced").first.click()
    row = page.locator(".code[aria-label='IR or kernel'] .row.current")
    name = row.locator(".nv").first
    name.click()
    assert f"{name.inner_text()}: defined in line" in page.locator("#note").inner_text()
    lit = page.locator(".code .nv.value")
    assert lit.count() >= 2 and set(lit.all_inner_texts()) == {name.inner_text()}
    assert page.locator(".code .nv.defined").count() == 1
    name.click()
    assert lit.count() == 0


def test_the_values_of_a_line(page: Page, reports: Path, tmp_path: Path) -> None:
    opened(page, reports / "addition.html")
    number = line_of("return x + self.")
    page.locator(f".code[aria-label='Python source'] .row[data-n='{number}']").click()
    assert f"--at {page.locator('#files option:checked').inner_text()}:{number}" in page.locator("#line").inner_text()
    shape = {"dtype": "float32", "shape": [2, 3], "nans": 1, "infinities": 0, "least": -0.5, "most": 2.0, "mean": 0.25}
    place = {"op": "tg.add", "line": f"{ROOT}/examples/addition.py:{number}", "module": "blocks.0", "phase": "forward"}
    (tmp_path / "values.json").write_text(json.dumps({"values": [{**place, **shape}]}))
    page.set_input_files("#replay", tmp_path / "values.json")
    page.wait_for_selector("#values")
    cells = page.locator("#values tbody td").all_inner_texts()
    assert cells == ["tg.add", "forward", "blocks.0", "float32[2, 3]", "-0.5", "0.25", "2", "1"]
    (tmp_path / "other.json").write_text("no JSON")
    page.set_input_files("#replay", tmp_path / "other.json")
    page.locator("#line", has_text="None of the 0 values").wait_for()


def test_the_decisions_of_fusion(page: Page, reports: Path) -> None:
    opened(page, reports / "addition.html")
    page.keyboard.press("2")
    page.locator("tr[data-pass]:has-text('fuse')").first.click()
    decisions = page.locator("#decisions")
    assert "merges (" in decisions.inner_text() and not page.locator(".code").is_visible()
    page.select_option("#which", label="What stays apart")
    group = decisions.locator("details").first
    group.locator("summary").click()
    group.get_by_text("not run in one kernel: ").first.wait_for()
    group.locator("button", has_text="Dispatch").last.click()
    assert "Dispatch" in page.locator("#about h2").first.inner_text()
    page.locator("#about button", has_text="apart from").click()
    assert decisions.locator("details[open]").count() == 1
    page.select_option("#which", label="The diff")
    assert page.locator(".code .row.inserted").count() > 10


def test_what_a_schedule_and_a_plan_of_memory_chose(page: Page, reports: Path) -> None:
    opened(page, reports / "addition.html")
    page.keyboard.press("2")
    page.locator("tr[data-pass]:has-text('schedule')").first.click()
    assert page.locator("#decisions .choice").count() > 3
    assert page.locator("#which option:not([hidden])").all_inner_texts() == ["All decisions", "The diff"]
    page.locator("tr[data-pass]:has-text('plan-memory')").first.click()
    assert "bytes in all; workspace" in page.locator("#decisions").inner_text()
    page.locator("tr[data-pass]:has-text('schedule')").first.click()
    page.locator("#decisions .choice button").first.click()
    assert "Dispatch 0" in page.locator("#about h2").first.inner_text()


def test_dark_narrow_and_from_an_address(page: Page, reports: Path) -> None:
    opened(page, reports / "addition.html")
    page.keyboard.press("d")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.set_viewport_size({"width": 420, "height": 800})
    page.keyboard.press("5")
    page.wait_for_selector("#runs tbody tr")
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#runs tbody tr")


def test_two_programs_beside_each_other(page: Page, reports: Path) -> None:
    opened(page, reports / "small.html")
    page.keyboard.press("6")
    assert page.locator("h2:has-text('Figures')").count() == 1
    assert page.locator(".row.inserted:has-text('tensor<4x3xf32>')").count() > 0
    page.keyboard.press("5")
    assert "GFLOP/s" in page.locator("#runs thead").inner_text()
