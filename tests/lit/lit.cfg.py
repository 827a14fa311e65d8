"""lit's configuration: `.mlir` files whose RUN lines pipe `tg-opt` into `filecheck`."""

import os
import sys
from pathlib import Path
from typing import Any

import lit.formats

config: Any = globals()["config"]  # lit puts it here

HERE = Path(__file__).resolve().parent
PYTHON_BIN = Path(sys.executable).parent

config.name = "tensorgrad"
config.test_format = lit.formats.ShTest()
config.suffixes = [".mlir"]
config.test_source_root = str(HERE)
config.test_exec_root = str(HERE.parents[1] / "build" / "lit")

# `tg-opt` and `filecheck` come from the environment that lit runs in.
config.environment["PATH"] = os.pathsep.join([str(PYTHON_BIN), os.environ["PATH"]])
config.environment["LP_NUM_THREADS"] = os.environ.get("LP_NUM_THREADS", "0")
config.environment["PYTHONWARNINGS"] = "error"

config.substitutions.append(("TG_ROUNDTRIP", "tg-opt %s --print-op-generic | tg-opt | filecheck %s"))
