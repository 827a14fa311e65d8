"""The JavaScript of docs/how-to/web.md runs unchanged, in the folder that its Python writes."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tensorgrad.tools.exporting import server

pytestmark = pytest.mark.web

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "web.md"


def code(language: str) -> str:
    """Returns all blocks of the page in one language."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S))


def test_the_javascript_runs(tmp_path: Path, browser: Browser) -> None:
    subprocess.run([sys.executable, "-c", code("python")], cwd=tmp_path, check=True)
    folder = tmp_path / "page"
    (folder / "docs.js").write_text(f"{code('js')}\nexport const done = training.stepCount;\n", encoding="utf-8")
    (folder / "blank.html").write_text("<!doctype html><title>docs</title>", encoding="utf-8")
    with server(str(folder)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        page = browser.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type == "log" else None)
        page.goto(f"http://127.0.0.1:{serving.server_port}/blank.html")
        assert page.evaluate("async () => (await import('/docs.js')).done") == 71
        page.close()
        serving.shutdown()
    assert said[0].startswith("21 0.")
    assert re.match(r"0\.\d+ \[32, 2\] Float32Array\(64\)", said[1])
    assert said[2] == "ProgramError: nothing.tg can't be loaded: 404 File not found"
