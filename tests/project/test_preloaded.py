"""Commands of RUN lines that run in forks of one process: they behave as the scripts themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import preloaded
import pytest

BIN = Path(sys.executable).parent

SCRIPTS = {
    "writes": "print('out'); print('err', file=sys.stderr)",
    "arguments": "print(sys.argv[1:], Path(sys.argv[0]).name, sys.path[0], __name__)",
    "folder": "print(os.getcwd())",
    "environment": "print(dict(os.environ))",
    "reads": "print(sys.stdin.read().upper(), end='')",
    "bytes": "sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])",
    "is-empty": "",
    "exits-0": "sys.exit()",
    "exits-3": "sys.exit(3)",
    "exits-with-text": "sys.exit('why')",
    "exits-with-256": "sys.exit(256)",
    "exits-at-once": "print('lost', end=''); os._exit(7)",
    "raises": "raise ValueError('wrong')",
    "is-killed": "os.kill(os.getpid(), 9)",
    "crashes": "ctypes.string_at(0)",
    "aborts": "print('lost', end=''); os.abort()",
    "ends-later": "atexit.register(print, 'late'); threading.Thread(target=print, args=('thread',)).start()",
    "is-not-read": "sys.stdin.read(); print('x')",
    "warns": "import warnings; warnings.warn('loudly')",
    "cannot-be-compiled": "print(",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Folders of scripts, and of the clients that have them run."""
    scripts = tmp_path_factory.mktemp("scripts")
    head = f"#!{sys.executable}\nimport atexit, ctypes, os, sys, threading\nfrom pathlib import Path\n"
    for name, text in SCRIPTS.items():
        (scripts / name).write_text(head + text, encoding="utf-8")
        (scripts / name).chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PYTHON")]:
            patch.delenv(name)  # the interpreter's own, which are read as the process starts
        patch.setenv("PYTHONWARNINGS", "error")
        server = preloaded.start(
            [*map(scripts.joinpath, SCRIPTS), *map(BIN.joinpath, ("tg-opt", "filecheck")), preloaded.PYTHON]
        )
    yield scripts, server.clients
    server.end()
    assert server.process.returncode == 0
    assert not server.clients.exists()


ENVIRONMENT = {"PATH": "", "PYTHONWARNINGS": "error", "LC_ALL": "C.UTF-8", "OWN": "ü = 1"}


def outcome(program: Path, *arguments: str, given: str = "", folder: Path) -> tuple[int, str, list[str]]:
    """Runs a program: its status, what it printed, and its errors without the places of a traceback."""
    done = subprocess.run(
        [program, *arguments],
        input=given,
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        env=ENVIRONMENT,
        check=False,
    )
    return (
        done.returncode,
        done.stdout,
        [line for line in done.stderr.splitlines() if not line.startswith(("Traceback", "  "))],
    )


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_command_ends_as_its_script(name: str, folders: tuple[Path, Path], tmp_path: Path) -> None:
    scripts, clients = folders
    text = "Zeile\n" * 50_000
    for _ in range(2):
        own = outcome(clients / name, "a b", "--c='ä'", given=text, folder=tmp_path)
        assert own == outcome(scripts / name, "a b", "--c='ä'", given=text, folder=tmp_path)


@pytest.mark.nightly
def test_the_statuses_are_those_that_were_meant(folders: tuple[Path, Path], tmp_path: Path) -> None:
    found = {name: outcome(folders[1] / name, folder=tmp_path)[0] for name in SCRIPTS}
    assert {name: status for name, status in found.items() if status} == {
        **dict.fromkeys(("exits-with-text", "raises", "warns", "cannot-be-compiled"), 1),
        "exits-3": 3,
        "exits-at-once": 7,
        "is-killed": -signal.SIGKILL,
        "crashes": -signal.SIGSEGV,
        "aborts": -signal.SIGABRT,
    }


@pytest.mark.nightly
def test_commands_run_side_by_side(folders: tuple[Path, Path], tmp_path: Path) -> None:
    texts = [f"{number}\n" * 1000 for number in range(20)]
    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(lambda text: outcome(folders[1] / "reads", given=text, folder=tmp_path), texts))
    assert found == [(0, text, []) for text in texts]


def test_a_pipe_ends_when_the_command_does(folders: tuple[Path, Path]) -> None:
    with subprocess.Popen([folders[1] / "writes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
        done = subprocess.run([folders[1] / "reads"], stdin=first.stdout, capture_output=True, text=True, check=True)
    assert done.stdout == "OUT\n"


def test_a_reader_that_stops_is_noticed(folders: tuple[Path, Path]) -> None:
    ends = []
    for program in (place / "is-not-read" for place in folders):
        read, written = os.pipe()
        with subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=written, stderr=subprocess.PIPE, env=ENVIRONMENT
        ) as one:
            os.close(written)
            os.close(read)
            one.communicate()
        ends.append(one.returncode)
    assert ends == [120, 120]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-W", "error", "script.py", "-W", "b"],
        ["-c", "import sys; print(sys.argv, sys.path[0], __name__); f = lambda: g; g = 1; print(f())", "a"],
        ["-m", "module", "a"],
        ["-c", "import sys; sys.exit('why')"],
        ["-W", "error", "-c", "import warnings; warnings.warn('loudly')"],
    ],
)
def test_python_itself(arguments: list[str], folders: tuple[Path, Path], tmp_path: Path) -> None:
    text = "import sys, inspect\nclass A: pass\nprint(sys.argv[1:], inspect.getsource(A), A.__module__, __name__)\n"
    for name in ("script", "module"):
        (tmp_path / f"{name}.py").write_text(f"{text}print(A.__init__.__objclass__, sys.path[0])\n", encoding="utf-8")
    own = outcome(folders[1] / "python", *arguments, folder=tmp_path)
    itself = outcome(Path(sys.executable), *arguments, folder=tmp_path)
    assert own == itself


IR = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.exp %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


@pytest.mark.nightly
@pytest.mark.parametrize("passes", ["inference-pipeline", "inference-pipeline -t wgsl", "grad", "unknown"])
def test_tg_opt_prints_what_it_prints(passes: str, folders: tuple[Path, Path], tmp_path: Path) -> None:
    own, itself = (
        outcome(place / "tg-opt", "-p", *passes.split(), given=IR, folder=tmp_path) for place in (folders[1], BIN)
    )
    assert own == itself
    assert own[0] == {"grad": 1, "unknown": 2}.get(passes, 0)
    (tmp_path / "checks").write_text("CHECK: bitcast", encoding="utf-8")
    checked = outcome(folders[1] / "filecheck", "checks", given=own[1], folder=tmp_path)
    assert checked == outcome(BIN / "filecheck", "checks", given=own[1], folder=tmp_path)
    assert checked[0] == bool(own[0])


@pytest.mark.nightly
def test_the_process_ends_with_the_one_that_started_it() -> None:
    code = (
        f"import os, sys\nsys.path.insert(0, {str(Path(preloaded.__file__).parent)!r})\nimport preloaded\n"
        "server = preloaded.start([])\n"
        "print(server.clients, flush=True)\nos.kill(os.getpid(), 9)"
    )
    # The process that is left holds the pipe of errors, which ends with it.
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        written, errors = first.communicate(timeout=60)
    assert (first.returncode, errors) == (-signal.SIGKILL, b"")
    assert not Path(written.decode().strip()).exists()
