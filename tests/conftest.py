"""Shared fixtures: reproducible random examples, the only WebGPU device, and settings that make compiling cheaper."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import draws
import preloaded
import pytest
from hypothesis import settings
from rings import leaves_out_nightly, mark_turns, parts_of, without_nightly

if TYPE_CHECKING:
    from tensorgrad.runtime.webgpu import WebGPUDevice

# Before the driver loads: Mesa's software driver runs small kernels ten times faster without its thread pool.
os.environ.setdefault("LP_NUM_THREADS", "0")
# Tests exercise the compiler, so programs are not taken from an earlier run's cache.
os.environ["TENSORGRAD_CACHE_PROGRAMS"] = "0"

OPTIONAL = ("tensorgrad.importers", "tensorgrad.exporters", "tensorgrad.onnx")
"""Packages that import what is slow to load, and that few programs need."""

PROOFS = "proofs"
"""The folder of tests that load z3."""

settings.register_profile("change", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("nightly", deadline=None, database=None, print_blob=True, max_examples=1000)
settings.load_profile("change")

# By default it is 700 new objects, and IR, which is all cycles, has a fifth of the time spent on collecting.
gc.set_threshold(50_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds an option that divides a long run."""
    parser.addoption("--slice", metavar="PART/PARTS", help="run only this part of the chosen tests, such as 2/4")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out proofs unless they are named: a Vulkan driver may have loaded another z3, which would crash ours."""
    is_named = any(PROOFS in Path(argument.partition("::")[0]).resolve().parts for argument in config.args)
    return True if collection_path.name == PROOFS and not is_named else None


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """Makes no items of a test that is nightly as a whole, where nightly tests are left out."""
    if not (name.startswith("test_") and leaves_out_nightly(collector.config.option.markexpr)):
        return None
    marks = [*collector.iter_markers("nightly"), *getattr(obj, "pytestmark", ())]
    return [] if any(mark.name == "nightly" for mark in marks) else None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes no items of nightly cases, where nightly tests are left out."""
    if leaves_out_nightly(metafunc.config.option.markexpr):
        metafunc.definition.own_markers[:] = map(without_nightly, metafunc.definition.own_markers)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Marks what is nightly before tests are chosen by marker; afterwards keeps those of a slice."""
    mark_turns(items)
    yield
    text = config.getoption("--slice")
    if text is None:
        return
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise pytest.UsageError(f"--slice {text}: expected a part of several, such as 2/4")
    numbered = list(zip(items, parts_of([item.nodeid for item in items], int(parts)), strict=True))
    config.hook.pytest_deselected(items=[item for item, number in numbered if number != int(part)])
    items[:] = [item for item, number in numbered if number == int(part)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Makes random numbers depend on the test alone."""
    draws.start(item.nodeid)


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from traversing the tests themselves, of which there are tens of thousands."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Has a slice without a test succeed: where tests are few, some slices have none."""
    if session.config.getoption("--slice") and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Has what tests leave among temporary files, such as reproducers of crashes, be removed with pytest's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture
def device() -> WebGPUDevice:
    """The only WebGPU device of this process, or its successor if a test has lost it.

    Without an adapter, fails and says what to install.
    """
    # Imported here, so that tests of the compiler run where wgpu is not installed.
    from tensorgrad.runtime.errors import NoAdapterError
    from tensorgrad.runtime.webgpu import WebGPUDevice

    try:
        return WebGPUDevice()
    except NoAdapterError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def python() -> Iterator[str]:
    """A program that runs Python code as `python -W error` does, in a fork of a process that has imported tensorgrad.

    For tests of what code does in a process of its own, unless they are about how it starts: what it imports, with
    which variables of the interpreter, and how it ends by signals.
    """
    from tensorgrad.surface.stubs import listed

    if sys.platform != "linux":  # a fork of a process that has loaded macOS's frameworks may hang
        yield sys.executable
        return
    names, _ = listed("__init__.pyi")
    homes = {home for home in names.values() if not home.startswith(OPTIONAL)}
    modules = [*sorted(homes), "tensorgrad.tools.tg", "wgpu.backends.wgpu_native", "llvmlite.binding"]
    environment = {**os.environ, "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"}
    server = preloaded.start([preloaded.PYTHON], modules, environment)
    yield str(server.clients / preloaded.PYTHON)
    server.end()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the programs that this run has compiled."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture
def kept_programs(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a test take a program that another has compiled: one that is about running programs, not compiling them."""
    monkeypatch.setenv("TENSORGRAD_CACHE", str(programs))
    monkeypatch.delenv("TENSORGRAD_CACHE_PROGRAMS")


@pytest.fixture
def compiled_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the CPU compile all blocks of eager tensors, of which NumPy interprets those that occur once."""
    from tensorgrad.driver.handles import eager_devices

    monkeypatch.setattr(eager_devices, "INTERPRETED", 0)
    monkeypatch.setattr(eager_devices, "_eager_devices", {})


@pytest.fixture(params=["native", "methods"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Parametrizes how steps are encoded: by the native library's functions, or by wgpu-py's methods."""
    from tensorgrad.runtime.webgpu import encoding

    if request.param == "methods":
        monkeypatch.setattr(encoding, "native_library", lambda: None)
    return request.param
