"""The start page of an exported folder: it trains, stores, resumes, calls functions, and reports errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ProgramError, TargetError
from tensorgrad.tools.exporting import server
from tensorgrad.tools.tg import main
from tensorgrad.web import MODULE

pytestmark = pytest.mark.web

STEPS = 50


def training(**options: Any) -> tg.Training:
    """Returns a training that fits a line to points."""
    return tg.compile(
        tg.nn.Linear(3, 1),
        loss=lambda model, x, y: tg.mse(model(x), y),
        optimizer=tg.optim.adam(0.05),
        inputs={"x": (16, 3), "y": (16, 1)},
        **{"device": "cpu", **options},
    )


def example() -> dict[str, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
    return {"x": x, "y": (x @ [[1.0], [-2.0], [0.5]] + 0.25).astype(np.float32)}


def predicting(made: tg.Training) -> tg.Inference:
    return made.attach(lambda model, x: {"y": model(x)}, inputs={"x": (16, 3)})


@pytest.fixture
def exported(tmp_path: Path) -> tuple[Path, tg.Training]:
    made = training()
    made.export_web(tmp_path / "page", functions={"predict": predicting(made)}, example=example())
    return tmp_path / "page", made


@pytest.fixture
def page(browser: Browser, exported: tuple[Path, tg.Training]) -> Iterator[Page]:
    """The page of the exported folder; unhandled errors and requests to other hosts fail the test."""
    with server(str(exported[0])) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{serving.server_port}/"
        context = browser.new_context(accept_downloads=True, viewport={"width": 360, "height": 740})
        page = context.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on(
            "request",
            lambda asked: None if asked.url.startswith((address, "blob:", "data:")) else faults.append(asked.url),
        )
        page.goto(address)
        yield page
        context.close()
        serving.shutdown()
        assert not faults


def says(page: Page, text: str) -> None:
    page.wait_for_function("text => document.getElementById('status').textContent.includes(text)", arg=text)


def test_it_trains_as_python_does_and_goes_on_after_a_reload(page: Page, exported: tuple[Path, tg.Training]) -> None:
    made = exported[1]
    says(page, "Ready, with an example.")
    page.get_by_label("Steps").fill(str(STEPS))
    page.get_by_role("button", name="Train").click()
    says(page, f"{STEPS} steps have run.")
    losses = [float(made.step(**example())) for _ in range(STEPS)]
    assert float(page.locator("#loss").inner_text()) == pytest.approx(losses[-1], rel=1e-4)
    points = (page.locator("#curve polyline").get_attribute("points") or "").split()
    heights = np.array([float(point.split(",")[1]) for point in points])
    scaled = 115 - 110 * (np.array(losses) - min(losses)) / (max(losses) - min(losses))
    np.testing.assert_allclose(heights, scaled, atol=0.05)
    page.get_by_role("button", name="Keep").click()
    says(page, f"Step {STEPS} is kept")
    page.reload()
    says(page, "Ready")
    assert page.locator("#step").inner_text() == "0"
    page.get_by_role("button", name="Restore").click()
    says(page, f"Resumed from step {STEPS}.")
    page.get_by_role("button", name="Train").click()
    says(page, f"{2 * STEPS} steps have run.")
    losses += [float(made.step(**example())) for _ in range(STEPS)]
    assert float(page.locator("#loss").inner_text()) == pytest.approx(losses[-1], rel=1e-3)
    page.get_by_role("button", name="Call").click()
    page.wait_for_function("() => document.getElementById('result-predict').textContent !== ''")
    shown = json.loads(page.locator("#result-predict").text_content() or "")
    expected = np.asarray(predicting(made)(x=example()["x"])["y"])
    np.testing.assert_allclose(np.reshape(shown["y"]["data"], shown["y"]["shape"]), expected, rtol=1e-3, atol=1e-3)


def test_what_it_downloads_goes_on_in_python(page: Page, exported: tuple[Path, tg.Training], tmp_path: Path) -> None:
    says(page, "Ready")
    page.get_by_label("Steps").fill("7")
    page.get_by_role("button", name="Train").click()
    says(page, "7 steps have run.")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "downloaded.tg")
    loaded = tg.load(tmp_path / "downloaded.tg")
    assert isinstance(loaded, tg.LoadedTraining) and loaded.step_count == 7
    made = exported[1]
    for _ in range(7):
        made.step(**example())
    assert float(loaded.step(**example())) == pytest.approx(float(made.step(**example())), rel=1e-4)


def test_inputs_results_and_axes_are_labeled(page: Page, exported: tuple[Path, tg.Training]) -> None:
    says(page, "Ready")
    assert page.locator("#inputs-training").inner_text().split("\n") == [
        "x",
        "f32 [16, 3], from the example",
        "y",
        "f32 [16, 1], from the example",
    ]
    page.get_by_role("button", name="Train").click()
    says(page, f"{STEPS} steps have run.")
    losses = [float(exported[1].step(**example())) for _ in range(STEPS)]
    shown = {name: float(page.locator(f"#{name}").inner_text()) for name in ("most", "least", "first", "last")}
    expected = {"most": max(losses), "least": min(losses), "first": 1, "last": STEPS}
    assert shown == pytest.approx(expected, rel=1e-3)
    page.get_by_role("button", name="Call").click()
    table = page.get_by_role("table", name="y: f32 [16, 1]")
    table.wait_for()
    assert table.locator("tbody tr").count() == 10
    assert "16 rows of 1 in all" in page.locator("#functions").inner_text()


def named(made: tg.Training) -> tg.Inference:
    """Returns a function with classes, a scalar, and a value that is not finite."""
    inputs = {"x": (16, 3)}
    return made.attach(
        lambda model, x: [
            tg.softmax(x),
            {"mean": tg.mean(model(x)), "none": tg.mean(x) / 0.0 * 0.0, "large": x > 0.0},
        ],
        inputs=inputs,
    )


def opened(browser: Browser, folder: Path, script: str = "") -> Iterator[Page]:
    with server(str(folder)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.add_init_script(script)
        page.goto(f"http://127.0.0.1:{serving.server_port}/")
        yield page
        page.close()
        serving.shutdown()


def test_classes_have_names_and_progress_is_shown(browser: Browser, tmp_path: Path) -> None:
    made = training()
    made.export_web(tmp_path, functions={"named": named(made)}, example=example(), labels=["cat", "dog", "owl"])
    script = "addEventListener('DOMContentLoaded', () => { globalThis.said = new Set(); new MutationObserver(() => "
    script += "['status', 'amount'].forEach((id) => said.add(document.getElementById(id).textContent)))"
    script += ".observe(document.body, {subtree: true, childList: true}); });"
    for page in opened(browser, tmp_path, script):
        says(page, "Ready")
        said = page.evaluate("Array.from(said)")
        size = -(-(tmp_path / "training.tg").stat().st_size // 1000)
        assert f"{size} KB of {size} KB" in said
        assert {"Loading training.tg…", "Compiling training.tg for this graphics card…"} <= set(said)
        assert page.locator("#loading").is_hidden()
        page.get_by_role("button", name="Call").click()
        table = page.get_by_role("table", name="0: f32 [16, 3]; the largest of each row is bold")
        table.wait_for()
        assert table.locator("thead th").all_inner_texts() == ["row", "cat", "dog", "owl"]
        bold = table.locator("tbody tr").first.locator("th:not([scope])").inner_text()
        values = np.exp(example()["x"][0]) / np.exp(example()["x"][0]).sum()
        assert float(bold) == pytest.approx(float(values.max()), rel=1e-3)
        assert page.get_by_role("table", name="1.mean: a number").count() == 1


def test_without_webgpu_it_shows_a_recording(browser: Browser, tmp_path: Path) -> None:
    made = training()
    functions = {"named": named(made), "predict": predicting(made)}
    made.export_web(tmp_path, functions=functions, example={"x": example()["x"]}, labels=["cat", "dog", "owl"])
    for page in opened(browser, tmp_path, "delete Navigator.prototype.gpu"):
        says(page, "this browser doesn't offer it here")
        says(page, "Python computed them from the example")
        assert page.get_by_role("heading", level=2).all_inner_texts() == ["named", "predict"]
        table = page.get_by_role("table", name="y: f32 [16, 1]")
        shown = [float(text) for text in table.locator("tbody td").all_inner_texts()]
        expected = np.asarray(predicting(made)(x=example()["x"])["y"])[:10, 0]
        np.testing.assert_allclose(shown, expected, rtol=1e-3)
        assert page.locator("#training").is_hidden()
    manifest = json.loads((tmp_path / "folder.json").read_text(encoding="utf-8"))
    chances, others = manifest["recorded"]["named"]
    assert others["none"] is None and chances["dtype"] == "f32"
    assert others["large"] == {
        "shape": [16, 3],
        "dtype": "bool",
        "data": (example()["x"] > 0).ravel().astype(int).tolist(),
    }
    made.export_web(tmp_path, functions={"predict": predicting(made)})
    for page in opened(browser, tmp_path, "delete Navigator.prototype.gpu"):
        says(page, "hardware acceleration turned on.")
        assert "recording" not in page.locator("#status").inner_text()


def test_functions_of_other_shapes_and_an_example_for_some_inputs(browser: Browser, tmp_path: Path) -> None:
    made = training()
    single = made.attach(lambda model, x: model(x), inputs={"x": (1, 3)})
    made.export_web(tmp_path, functions={"single": single}, example={"x": example()["x"]})
    with server(str(tmp_path)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{serving.server_port}/")
        says(page, "Ready, with an example.")
        page.get_by_role("button", name="Train").click()
        says(page, f"{STEPS} steps have run.")
        page.get_by_role("button", name="Call").click()
        page.wait_for_function("() => document.getElementById('result-single').textContent !== ''")
        assert json.loads(page.locator("#result-single").text_content() or "")["shape"] == [1, 1]
        page.close()
        serving.shutdown()


def test_it_fits_a_phone_and_has_a_policy(page: Page, exported: tuple[Path, tg.Training]) -> None:
    says(page, "Ready")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    policy = page.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content") or ""
    assert "default-src 'self'" in policy and "unsafe" not in policy
    (exported[0] / "probe.js").write_text("export let said; try { (0, eval)('1') } catch (error) { said = error.name }")
    tab = page.context.new_page()  # errors on this page are expected
    tab.goto(page.url)
    assert tab.evaluate("async () => (await import('/probe.js')).said") == "EvalError"


def test_a_page_that_is_there_stays(exported: tuple[Path, tg.Training]) -> None:
    folder, made = exported
    (folder / "index.html").write_text("mine", encoding="utf-8")
    (folder / MODULE.name).write_text("old", encoding="utf-8")
    made.export_web(folder)
    assert (folder / "index.html").read_text(encoding="utf-8") == "mine"
    assert (folder / MODULE.name).read_bytes() == MODULE.read_bytes()
    assert json.loads((folder / "folder.json").read_text(encoding="utf-8"))["functions"] == {}


def test_the_command_writes_the_same_folder(exported: tuple[Path, tg.Training], tmp_path: Path) -> None:
    folder, _ = exported
    (tmp_path / "example.npz").write_text("no arrays")
    files = [str(folder / name) for name in ("training.tg", "predict.tg")]
    again = tmp_path / "again"
    assert main(["export", "web", *files, str(again), "--example", str(tmp_path / "example.npz")]) == 1
    assert not again.exists()
    cast(Any, np.savez)(tmp_path / "example.npz", **example())
    assert main(["export", "web", *files, ""]) == 1
    assert main(["export", "web", *files, str(again), "--example", str(tmp_path / "example.npz")]) == 0
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in again.iterdir())
    different = [name for name in names if (folder / name).read_bytes() != (again / name).read_bytes()]
    assert different == ["folder.json"]
    ours, theirs = (json.loads((one / "folder.json").read_text(encoding="utf-8")) for one in (folder, again))
    assert ours.pop("recorded")["predict"]["y"]["shape"] == [16, 1]
    assert theirs.pop("recorded") == {} and ours == theirs, "only Python records results"


def test_what_no_page_runs_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    made, other = training(), training(device="numpy")
    into = tmp_path / "page"
    with pytest.raises(InputError, match=r"example: no input z; there are x, y"):
        made.export_web(into, example={"z": 1.0})
    with pytest.raises(InputError, match=r"example 'x' has shape \(2,\), expected \(16, 3\)"):
        made.export_web(into, example={"x": [1.0, 2.0]})
    with pytest.raises(OptionError, match=r"a program can't be called 'a b': its file would be a b.tg"):
        made.export_web(into, functions={"a b": predicting(made)})
    with pytest.raises(OptionError, match=r"export_web: a function can't be called 'training'"):
        made.export_web(into, functions={"training": predicting(made)})
    jitted: Any = {"f": tg.jit(tg.tanh)}
    no_dict: Any = []
    with pytest.raises(OptionError, match=r"export_web: functions: 'f' is a Jitted, which can't be saved: pass what"):
        made.export_web(into, functions=jitted)
    with pytest.raises(OptionError, match=r"export_web: functions must be a dict of functions by name, got \[\]"):
        made.export_web(into, functions=no_dict)
    with pytest.raises(OptionError, match=r"the path of the folder to write is empty"):
        made.export_web("")
    with pytest.raises(OptionError, match=r"labels: there are 2, and no function has as many results"):
        made.export_web(into, functions={"predict": predicting(made)}, labels=["cat", "dog"])
    with pytest.raises(OptionError, match=r"labels must be a list of names, got 'cat'"):
        made.export_web(into, functions={"predict": predicting(made)}, labels="cat")
    with pytest.raises(ProgramError, match=r"a page has one training, there are training, other"):
        made.export_web(into, functions={"other": other})  # pyright: ignore[reportArgumentType]
    large = tg.compile(
        tg.nn.Linear(3, 1),
        loss=lambda model, x: tg.mean(model(x).astype(tg.f64) ** 2).astype(tg.f32),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 3)},
        device="cpu",
    )
    with pytest.raises((TargetError, ProgramError), match="f64"):
        large.export_web(into)
    assert not into.exists()
