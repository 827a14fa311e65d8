"""Takes the pictures of the gallery's index: `python tests/web/thumbnails.py FOLDER [NAME …]`.

FOLDER has an exported folder of each example; `make docs` writes build/site/gallery.
"""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

from conftest import ARGUMENTS, BROWSERS
from playwright.sync_api import Page, expect, sync_playwright

from tensorgrad.tools.exporting import server

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "gallery"
STEPS = {"sine": 200, "moons": 60, "neural_field": 150, "digits": 0, "char_gpt": 0}
"""For how many steps each page trains before its picture is taken."""
PARTS = {"sine": "#plot", "moons": "#area", "neural_field": ".pair", "digits": ".reading", "char_gpt": "#text"}
"""The part of each page that is shown."""
SEVEN = [(0.28, 0.25), (0.72, 0.25), (0.45, 0.85)]


def prepare(page: Page, name: str) -> None:
    """Trains, draws or writes, as a visitor would."""
    page.locator("#live").wait_for(state="visible")
    print(name, flush=True)
    if name == "digits":
        box = page.locator("#area").bounding_box()
        assert box is not None
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in SEVEN]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=6)
        page.mouse.up()
        expect(page.locator("#answer")).not_to_be_empty()
    elif name == "char_gpt":
        page.fill("#length", "100")
        page.click("#write")
        expect(page.locator("#status")).to_contain_text("Wrote", timeout=240_000)
    else:
        page.click("#train")
        while int(page.inner_text("#step")) < STEPS[name]:
            page.wait_for_timeout(100)
        page.click("#train")
        page.wait_for_timeout(2000)


def main(folder: Path, names: list[str]) -> None:
    executable = next(path for name in BROWSERS if (path := shutil.which(name)))
    with sync_playwright() as playwright, server(str(folder)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=executable, args=[*ARGUMENTS, "--no-sandbox"])
        for name in names or STEPS:
            context = browser.new_context(viewport={"width": 420, "height": 900})
            context.set_default_timeout(240_000)
            page = context.new_page()
            nested = f"{name}/live" if (folder / name / "live").exists() else name
            page.goto(f"http://127.0.0.1:{serving.server_port}/{nested}/index.html")
            prepare(page, name)
            page.locator(PARTS[name]).screenshot(path=PICTURES / f"{name}.jpg", type="jpeg", quality=80)
            context.close()
        browser.close()
        serving.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
