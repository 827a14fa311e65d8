"""A chapter of the laboratory in a browser: a slider moves, and the cells that depend on it run again."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

CHAPTER = Path(__file__).resolve().parents[2] / "lab" / "chapters" / "passes.py"
WAIT_SECONDS = 240

pytestmark = pytest.mark.web


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address at which marimo serves the chapter."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--headless", "--no-token", "--host", "127.0.0.1", "--port", str(port)]
    command = [sys.executable, "-m", "marimo", "run", str(CHAPTER), *options]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as serving:
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                assert serving.poll() is None and time.monotonic() < end, (tmp_path / "log").read_text()
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
        serving.terminate()


def test_a_slider_goes_through_the_passes(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(1000 * WAIT_SECONDS)
    page.goto(address)
    expect(page.locator("table")).to_contain_text("convert-to-llvm", timeout=1000 * WAIT_SECONDS)
    slider = page.get_by_role("slider")
    slider.focus()
    lowering = page.get_by_role("row").filter(has_text="lower-tg-to-buf").get_by_role("cell").first
    for _ in range(int(lowering.inner_text())):
        slider.press("ArrowRight")
    expect(page.locator("pre")).to_contain_text("buf.kernel", timeout=1000 * WAIT_SECONDS)
    expect(page.locator("body")).to_contain_text("lower-tg-to-buf", timeout=1000 * WAIT_SECONDS)
    page.close()
