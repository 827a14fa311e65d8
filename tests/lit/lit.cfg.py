"""lit's configuration: `.mlir` files whose RUN lines pipe `tg-opt` into `filecheck`."""

import gc
import importlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import lit.formats

config: Any = globals()["config"]  # lit puts it here

HERE = Path(__file__).resolve().parent
PYTHON_BIN = Path(sys.executable).parent

sys.path.insert(0, str(HERE.parent / "helpers"))
preloaded: Any = importlib.import_module("preloaded")

config.name = "tensorgrad"
config.test_format = lit.formats.ShTest()
config.suffixes = [".mlir"]
config.test_source_root = str(HERE)
config.test_exec_root = str(HERE.parents[1] / "build" / "lit")

config.environment["PYTHONWARNINGS"] = os.environ["PYTHONWARNINGS"] = "error"

# The shell takes commands from the environment that lit runs in: by these names in forks of a process that has imported
# them, and by the path below %bin as they are.
places = [str(PYTHON_BIN), os.environ["PATH"]]
if preloaded.SUPPORTED:
    commands = [PYTHON_BIN / name for name in ("tg-opt", "xdsl-opt", "filecheck")]
    places.insert(0, str(preloaded.start(commands).clients))
    preloaded.preload([])
    runs: Any = importlib.import_module("run_lines")
    config.test_format = runs.RunLines()
    gc.freeze()  # otherwise the collector would write to, and so copy, the pages that forks share
config.environment["PATH"] = os.pathsep.join(places)
config.environment["LP_NUM_THREADS"] = os.environ.get("LP_NUM_THREADS", "0")

config.substitutions.append(("TG_ROUNDTRIP", "tg-opt %s --print-op-generic | tg-opt | filecheck %s"))
config.substitutions.append(("%bin", str(PYTHON_BIN)))

# Reproducers of crashes are temporary files; those of the last run are removed. Sockets need shorter paths.
temporary = Path(config.test_exec_root) / "temporary"
shutil.rmtree(temporary, ignore_errors=True)
temporary.mkdir(parents=True)
config.environment["TMPDIR"] = tempfile.tempdir = str(temporary)
