"""The JavaScript of docs/how-to/web.md and web/README.md runs unchanged, in the folder that its Python writes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tensorgrad.tools.exporting import server
from tensorgrad.web import MODULE

pytestmark = pytest.mark.web

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "how-to" / "web.md"
README = ROOT / "web" / "README.md"
IMPORTS = '{"imports": {"tensorgrad": "/tensorgrad.js", "tensorgrad/inference": "/inference.js"}}'


def blocks(page: Path, language: str) -> list[str]:
    """Returns the blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def test_the_javascript_runs(tmp_path: Path, browser: Browser) -> None:
    subprocess.run([sys.executable, "-c", "\n".join(blocks(GUIDE, "python"))], cwd=tmp_path, check=True)
    folder = tmp_path / "page"
    script = "\n".join([*blocks(GUIDE, "js"), "export const done = training.stepCount;"])
    (folder / "docs.js").write_text(script, encoding="utf-8")
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
    assert said[2:4] == ["to be or not to be that is the question", "true"]
    assert said[4] == "ProgramError: nothing.tg can't be loaded: 404 File not found"


def test_the_package_page_runs(tmp_path: Path, browser: Browser) -> None:
    subprocess.run([sys.executable, "-c", "\n".join(blocks(README, "python"))], cwd=tmp_path, check=True)
    for path in MODULE.parent.glob("*.js"):
        shutil.copyfile(path, tmp_path / path.name)
    (tmp_path / "blank.html").write_text(f'<body><script type="importmap">{IMPORTS}</script>', encoding="utf-8")
    said: list[str] = []
    with server(str(tmp_path)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type == "log" else None)
        page.goto(f"http://127.0.0.1:{serving.server_port}/blank.html")
        for number, block in enumerate(blocks(README, "js")):
            (tmp_path / f"{number}.js").write_text(block, encoding="utf-8")
            page.evaluate(f"() => import('/{number}.js')")
        page.close()
        serving.shutdown()
    assert said[:2] == ["{x: Object}", "[1, 2] Float32Array(2)"]
    first, last, chance = map(float, said[2].split())
    assert last < first and chance > 0.5
    assert said[3] == "Float32Array(2)"
    assert said[4].startswith("predict.tg: 0 of ") and said[-1] == re.sub(r": \d+ of (\d+)", r": \1 of \1", said[4])
