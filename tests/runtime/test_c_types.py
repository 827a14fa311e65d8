"""The C types that wgpu-py looks up by name are parsed at once, and equal those that cffi finds itself."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from wgpu.backends import wgpu_native

from tensorgrad.runtime.webgpu import c_types
from tensorgrad.runtime.webgpu.c_types import ARRAYS, CALLBACKS, POINTERS, know_types

FIRST_STEP = """
import cffi.cparser
parsed = []
parse = cffi.cparser.Parser.parse_type_and_quals
def counted(self, text):
    parsed.append(text)
    return parse(self, text)
cffi.cparser.Parser.parse_type_and_quals = counted
from benchmarks.workloads import workload
training, batch = workload("sine")("wgpu")
float(training.step(**batch))
print(len(parsed))
"""


def test_types_are_those_of_the_header() -> None:
    ffi: Any = wgpu_native.ffi
    assert know_types(ffi)
    for name in (*POINTERS, *ARRAYS):
        assert ffi.typeof(name) is ffi.typeof(f" {name}"), name  # which is parsed anew
    for name in CALLBACKS:
        assert ffi._typeof(name, consider_function_as_funcptr=True) is ffi.typeof(name.replace("(", "(*)(", 1)), name


@pytest.mark.nightly
def test_a_first_step_parses_next_to_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_STEP], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 5


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not know_types(None)
    assert not know_types(object())
    monkeypatch.setattr(c_types, "POINTERS", ("WGPUNothing *",))
    assert not know_types(wgpu_native.ffi)
