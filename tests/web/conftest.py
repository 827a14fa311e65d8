"""Shared fixtures for tests of pages: headless Chromium with WebGPU, and a folder that is served to it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tensorgrad.tools.exporting import server
from tensorgrad.web import MODULE

BROWSERS = ("/usr/lib/chromium/chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ("--enable-unsafe-webgpu", "--enable-unsafe-swiftshader", "--use-webgpu-adapter=swiftshader")
BLANK = '<!doctype html><title>tests</title><link rel="icon" href="data:,">'
WAIT_MS = 240_000
"""For how long anything in a page may take: SwiftShader compiles slowly."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail("there is no Chromium: `make test-web` installs one, or says how to")
    as_root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*ARGUMENTS, *as_root])
        yield browser
        browser.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with the module and a blank page, and the address at which it is served."""
    if not MODULE.exists():
        pytest.fail("the module for pages is not built: `make web`")
    shutil.copyfile(MODULE, tmp_path / MODULE.name)
    (tmp_path / "blank.html").write_text(BLANK, encoding="utf-8")
    with server(str(tmp_path)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield tmp_path, f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


@pytest.fixture
def served(browser: Browser, site: tuple[Path, str]) -> Iterator[Page]:
    """A page of the site; unhandled errors and requests to other hosts fail the test."""
    address = site[1]
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda asked: None if asked.url.startswith((address, "blob:")) else faults.append(asked.url))
    page.goto(f"{address}/blank.html")
    yield page
    context.close()
    assert not faults


@pytest.fixture
def evaluate(served: Page) -> Callable[..., Any]:
    """Runs an asynchronous function body with the module as `T` and an argument as `given`; returns its result."""

    def run(body: str, given: Any = None) -> Any:
        return served.evaluate(f"async (given) => {{ const T = await import('/tensorgrad.js'); {body} }}", given)

    return run
