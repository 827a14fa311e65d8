"""Times steps of one saved program in a web page and in Python, on the same software adapter, SwiftShader.

Headless Chromium ships SwiftShader as a Vulkan driver, which wgpu can use too. Several steps are timed together, so
that the overhead of requesting them is negligible.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors.numpy import save_file

from benchmarks.harness import Contestant, Timing, measure, report
from benchmarks.workloads import workload
from tensorgrad.runtime.target import WEBGPU_DEFAULT
from tensorgrad.tools.exporting import server
from tensorgrad.web import MODULE

BROWSER = Path("/usr/lib/chromium/chromium-headless-shell")
DRIVER = BROWSER.with_name("vk_swiftshader_icd.json")
ARGUMENTS = ("--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
TARGET = replace(WEBGPU_DEFAULT, name="any software adapter", software=True, shader_dialect="standard")
TOGETHER = {"sine": 20, "mlp": 2, "convnet": 2}
"""The workloads, each with the number of steps that are timed together."""

CHILD = """
import sys, numpy as np, tensorgrad as tg
training, batch = tg.load(sys.argv[1]), dict(np.load(sys.argv[2]))
print(training.device, flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        loss = training.step(**batch)
    print(float(loss), flush=True)
"""
PAGE = """async (steps) => {
    const T = await import('/tensorgrad.js');
    globalThis.training ??= await T.Training.load('training.tg');
    globalThis.batch ??= await T.readArrays('batch.safetensors');
    let loss;
    for (let index = 0; index < steps; index++) loss = training.step(batch);
    return T.read(loss);
}"""


@contextmanager
def in_python(folder: Path, steps: int) -> Iterator[Contestant]:
    """Runs the program in a new process, whose only Vulkan driver is SwiftShader."""
    environment = {**os.environ, "VK_ICD_FILENAMES": str(DRIVER), "WGPU_BACKEND_TYPE": "Vulkan"}
    command = [sys.executable, "-c", CHILD, str(folder / "training.tg"), str(folder / "batch.npz")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdin is not None and child.stdout is not None
        to, from_ = child.stdin, child.stdout
        device = from_.readline().strip()
        if "SwiftShader" not in device:
            raise RuntimeError(f"wgpu took {device or 'no adapter'}, not SwiftShader")

        def step() -> float:
            print(steps, file=to, flush=True)
            return float(from_.readline())

        yield Contestant("Python, wgpu", step, {"device": device})
        to.close()


@contextmanager
def in_a_page(folder: Path, steps: int) -> Iterator[Contestant]:
    """Runs the program in headless Chromium."""
    from playwright.sync_api import sync_playwright

    with server(str(folder)) as serving, sync_playwright() as playwright:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=BROWSER, args=list(ARGUMENTS))
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{serving.server_port}/blank.html")
        yield Contestant("a page", partial(page.evaluate, PAGE, steps), {"browser": browser.version})
        browser.close()
        serving.shutdown()


def compare(name: str, rounds: int, seconds: float) -> list[Timing]:
    """Times a workload's steps in Python and in a page, alternating.

    Raises:
        RuntimeError: wgpu doesn't run on SwiftShader.
    """
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        training, batch = workload(name)("numpy")
        training.save(folder / "training.tg", target=TARGET.to_json())
        arrays = {key: np.ascontiguousarray(value) for key, value in batch.items()}
        cast(Any, np.savez)(folder / "batch.npz", **arrays)
        save_file(arrays, folder / "batch.safetensors")
        shutil.copyfile(MODULE, folder / MODULE.name)
        (folder / "blank.html").write_text("<!doctype html><title>steps</title>", encoding="utf-8")
        with in_python(folder, TOGETHER[name]) as python, in_a_page(folder, TOGETHER[name]) as page:
            return measure([python, page], rounds, seconds)


def report_pages(rounds: int, seconds: float, out: Path) -> None:
    """Prints and writes the comparison of each workload."""
    if not (BROWSER.exists() and DRIVER.exists() and MODULE.exists()):
        raise SystemExit("pages need Chromium's headless shell with SwiftShader, and `make web`")
    for name, steps in TOGETHER.items():
        timings = compare(name, rounds, seconds)
        report(f"{name}, {steps} steps", timings, timings[0].name, out / f"page {name}.json")
