"""The runtime for browsers: an ES module in TypeScript, and the page that an exported folder begins with.

`make web` builds the module, and so does what packs a wheel; the package includes it.
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent  # where installs link to the sources: there
MODULE = _HERE / "dist" / "tensorgrad.js"
"""The built module."""
INFERENCE = MODULE.with_name("inference.js")
"""The same without training, which packages have as `tensorgrad/inference`."""
STARTER = tuple(_HERE / "starter" / name for name in ("index.html", "page.js", "style.css"))
"""The files of the page."""
