"""`tg export` and `tg serve`: programs in web pages."""

from __future__ import annotations

import functools
import http.server
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console

from tensorgrad.driver.storage.web_export import MANIFEST, export_files
from tensorgrad.errors import OptionError
from tensorgrad.runtime.weights import F32
from tensorgrad.tools.arrays import named_arrays
from tensorgrad.tools.printing import plain, print_json


@dataclass(frozen=True)
class Export:
    """Writes a folder with saved programs that any web server can serve.

    Attributes:
        where: The kind of export: "web".
        files: Programs saved with `target="webgpu-default"`: functions, generators, and at most one training.
        folder: The folder to write.
        example: An `.npz` file with arrays for inputs, by name, or none.
        weights: How the folder stores the functions' parameters; see `Inference.save`.
        labels: The names of the classes, or the texts of a generator's tokens: separated by commas, or a `.json` file
            with a list of them; or none.
        json: Whether to print JSON.
    """

    where: str
    files: Sequence[str]
    folder: str
    example: str | None = None
    weights: str = F32
    labels: str | None = None
    json: bool = False

    def run(self, console: Console) -> None:
        """Writes the folder.

        Raises:
            TensorgradError: A file isn't a program, or can't run in pages, or the example doesn't fit.
            OSError: A file can't be read or written.
        """
        paths = {Path(file).stem: file for file in self.files}
        if len(paths) < len(self.files):
            raise OptionError(f"export: two of these files have the same name: {', '.join(self.files)}")
        example = None if self.example is None else named_arrays(self.example)
        export_files(self.folder, paths, example, self.weights, _labels(self.labels))
        if self.json:
            print_json(console, {"folder": self.folder, "programs": sorted(paths)})
        else:
            console.print(plain(f"{self.folder} is written: `tg serve {self.folder}` serves it"), soft_wrap=True)


def _labels(given: str | None) -> Any:
    """Returns the names on the command line, or those of a file.

    Raises:
        OptionError: The file holds no JSON.
        OSError: It can't be read.
    """
    if given is None or not given.endswith(".json"):
        return None if given is None else given.split(",")
    try:
        return json.loads(Path(given).read_text(encoding="utf-8"))
    except ValueError as error:
        raise OptionError(f"export: {given} holds no JSON: {error}") from None


@dataclass(frozen=True)
class Serve:
    """Serves a folder to browsers on this machine, until it is interrupted.

    Attributes:
        folder: A folder written by `tg export web` or `training.export_web`.
        port: The port; 0 chooses a free one.
        seconds: How long to serve; `None` means until interrupted.
        json: Whether to print JSON.
    """

    folder: str
    port: int = 8000
    seconds: float | None = None
    json: bool = False

    def run(self, console: Console) -> None:
        """Prints the address, and serves.

        Raises:
            OptionError: The folder doesn't exist, or has no page.
            OSError: The port is taken.
        """
        if not Path(self.folder, "index.html").exists():
            raise OptionError(f"serve: {self.folder} has no index.html; `tg export web` writes one, and {MANIFEST}")
        with server(self.folder, self.port) as serving:
            address = f"http://127.0.0.1:{serving.server_port}/"
            if self.json:
                print_json(console, {"address": address})
            else:
                console.print(plain(f"{address} serves {self.folder}; Ctrl-C ends it"), soft_wrap=True)
            console.file.flush()
            if self.seconds is not None:
                ending = threading.Timer(self.seconds, serving.shutdown)
                ending.daemon = True
                ending.start()
            try:
                serving.serve_forever()
            except KeyboardInterrupt:
                return


HOSTS = ("localhost", "127.0.0.1", "::1")
"""The names by which requests may address the server: another one may be a stranger's that resolves to this machine."""

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
"""What pages may load: nothing of other servers. Inline scripts are allowed, as pages that users write have them."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def server(folder: str, port: int = 0) -> http.server.ThreadingHTTPServer:
    """Returns a server of a folder's files for this machine only: a secure context, as WebGPU requires."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(_Files, directory=folder))


class _Files(http.server.SimpleHTTPRequestHandler):
    """Serves the files in a folder, without caching; neither folders nor what links lead to outside. Prints nothing."""

    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".tg": "application/octet-stream",
    }

    def send_head(self) -> Any:
        """Sends a file's headers, or an error; returns the file if its content is to be sent too."""
        if not self._is_for_this_machine():
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This server is for this machine alone")
            return None
        if not self._is_inside():
            self.send_error(HTTPStatus.NOT_FOUND, "File not found")
            return None
        return super().send_head()

    def list_directory(self, path: str | os.PathLike[str]) -> None:
        """Refuses a folder that has no page."""
        self.send_error(HTTPStatus.NOT_FOUND, "File not found")

    def _is_for_this_machine(self) -> bool:
        hosts = self.headers.get_all("Host", [])
        try:
            return len(hosts) == 1 and urlsplit(f"//{hosts[0]}").hostname in HOSTS
        except ValueError:
            return False

    def _is_inside(self) -> bool:
        """Returns whether the requested file, and the page of a requested folder, lie in the served folder."""
        root = Path(self.directory).resolve()
        try:
            path = Path(self.translate_path(self.path))
            pages = [path / name for name in ("index.html", "index.htm")]
            return all(candidate.resolve().is_relative_to(root) for candidate in (path, *pages))
        except (OSError, ValueError, RuntimeError):  # a path that the system has not, or a circle of links
            return False

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing."""
