"""The mkdocs hook that makes the gallery's live pages with the programs in examples/web.

`GALLERY_STEPS` is the number of steps for which the models of the pages are trained beforehand, by numpy; by default
each program decides.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "web"
STEPS = "GALLERY_STEPS"
BEGIN_TRAINED = ("char_gpt", "digits")
"""The examples whose pages start with a trained model."""


def on_post_build(config: Mapping[str, Any], **_: Any) -> None:
    """Writes the folder of each example next to its page of the site.

    Raises:
        subprocess.CalledProcessError: A program failed; it has printed why.
    """
    gallery = Path(config["site_dir"], "gallery")
    with ThreadPoolExecutor(2) as pool:
        programs = sorted(EXAMPLES.glob("*/*.py"))
        list(pool.map(lambda program: _make(program, gallery / program.stem / "live"), programs))


def _make(program: Path, folder: Path) -> None:
    steps = os.environ.get(STEPS)
    options = ["--steps", steps, "--device", "numpy"] if steps and program.stem in BEGIN_TRAINED else []
    command = [sys.executable, str(program), "--out", str(folder), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
