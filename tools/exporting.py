"""`tg export` and `tg serve`: programs in web pages."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tensorgrad.driver.web_export import MANIFEST, export_files
from tensorgrad.errors import OptionError
from tensorgrad.tools.arrays import named_arrays
from tensorgrad.tools.printing import plain, print_json


@dataclass(frozen=True)
class Export:
    """Writes a folder with saved programs that any web server can serve.

    Attributes:
        where: The kind of export: "web".
        files: Programs saved with `target="webgpu-default"`: functions, and at most one training.
        folder: The folder to write.
        example: An `.npz` file with arrays for inputs, by name, or none.
        json: Whether to print JSON.
    """

    where: str
    files: Sequence[str]
    folder: str
    example: str | None = None
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
        export_files(self.folder, paths, None if self.example is None else named_arrays(self.example))
        if self.json:
            print_json(console, {"folder": self.folder, "programs": sorted(paths)})
        else:
            console.print(plain(f"{self.folder} is written: `tg serve {self.folder}` serves it"), soft_wrap=True)


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


def server(folder: str, port: int = 0) -> http.server.ThreadingHTTPServer:
    """Returns a server of a folder's files for this machine only: a secure context, as WebGPU requires."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(_Quiet, directory=folder))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without caching, and prints nothing."""

    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".tg": "application/octet-stream",
    }

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing."""
