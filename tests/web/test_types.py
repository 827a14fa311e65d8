"""The package as npm packs it: entries resolve, and programs and blocks of the documentation compile under `strict`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import browser_module
import pytest

pytestmark = pytest.mark.web

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
INSTALLED = Path(__file__).parent / "npm" / "node_modules"
COMPILERS = {"newest": ROOT / "web" / "node_modules" / "typescript", "5.0": INSTALLED / "typescript"}
PAGES = sorted([ROOT / "web" / "README.md", ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(js|ts|jsx|tsx|javascript|typescript)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = {
    "strict": True,
    "noEmit": True,
    "target": "es2022",
    "module": "esnext",
    "moduleResolution": "bundler",
    "lib": ["es2022", "dom", "dom.iterable"],
    "types": [],
    "jsx": "react-jsx",
    "allowJs": True,
    "checkJs": True,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the package as npm packs it, and the types of React."""
    folder = tmp_path_factory.mktemp("project")
    browser_module.run_npm("pack", "--ignore-scripts", "--pack-destination", str(folder))
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    modules = folder / "node_modules"
    modules.mkdir()
    (folder / "package").rename(modules / "tensorgrad")
    shutil.copytree(INSTALLED / "@types", modules / "@types")
    shutil.copytree(INSTALLED / "csstype", modules / "csstype")
    return folder


def errors(project: Path, files: Mapping[str, str], compiler: str = "newest") -> str:
    """Returns what a compiler says of a program, whose files may also import "./tensorgrad.js"."""
    for name, text in {**files, "tensorgrad.d.ts": 'export * from "tensorgrad";'}.items():
        (project / name).write_text(text, encoding="utf-8")
    configuration = {"compilerOptions": OPTIONS, "files": list(files)}
    (project / "tsconfig.json").write_text(json.dumps(configuration), encoding="utf-8")
    node, _ = browser_module.node_and_packages()
    command = [str(node), str(COMPILERS[compiler] / "bin" / "tsc"), "-p", str(project)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False).stdout


def program(name: str) -> str:
    return (PROGRAMS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_programs_compile_and_misuse_does_not(project: Path, compiler: str) -> None:
    files = {name: program(name) for name in ("training.ts", "inference.ts")}
    assert errors(project, files, compiler) == ""


@pytest.mark.parametrize("name", ["training.ts", "inference.ts"])
def test_each_misuse_is_what_fails(project: Path, name: str) -> None:
    """Without `@ts-expect-error` there is an error below each of those lines, and nowhere else."""
    text = program(name)
    expected = {
        text[: found.end()].count("\n") + 2 for found in re.finditer("^// @ts-expect-error", text, re.MULTILINE)
    }
    said = errors(project, {name: text.replace("// @ts-expect-error", "// here")})
    assert {int(number) for number in re.findall(rf"^{name}\((\d+),", said, re.MULTILINE)} == expected


def blocks() -> dict[str, str]:
    """Returns the blocks of the documentation by a name for each; those that include a file are that file's matter."""
    found: dict[str, str] = {}
    for page in PAGES:
        for number, (language, code) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            extension = language.replace("javascript", "js").replace("typescript", "ts")
            name = f"{page.relative_to(ROOT).with_suffix('').as_posix().replace('/', '-')}-{number}.{extension}"
            if not code.startswith("--8<--"):
                found[name] = f"{code}export {{}};\n"
    return found


def test_blocks_of_the_documentation_compile(project: Path) -> None:
    found = blocks()
    assert len(found) >= 11 and {"web-README-0.js", "docs-how-to-web-0.js"} <= found.keys()
    assert errors(project, {**found, "prelude.d.ts": program("prelude.d.ts")}) == ""


def test_entries_resolve_and_differ_by_training(project: Path) -> None:
    """An import outside a page works, as servers that render pages do it."""
    node, _ = browser_module.node_and_packages()
    script = """
        const [whole, inference] = await Promise.all([import("tensorgrad"), import("tensorgrad/inference")]);
        console.log(JSON.stringify([Object.keys(whole), Object.keys(inference)]));
    """
    command = [str(node), "--input-type=module", "--eval", script]
    whole, inference = json.loads(subprocess.run(command, cwd=project, capture_output=True, check=True).stdout)
    assert set(whole) - set(inference) == {"TextGenerator", "Training", "download", "store", "stored"}
    assert set(inference) < set(whole)
