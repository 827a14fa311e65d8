"""`tg cache`: the caches on disk."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tensorgrad.driver.storage import program_cache
from tensorgrad.runtime.cpu import objects
from tensorgrad.tools.printing import print_json, size
from tensorgrad.tools.tables import Listing


@dataclass(frozen=True)
class Cache:
    """Lists the caches, or deletes them.

    Attributes:
        clear: Whether to delete them.
        json: Whether to print JSON.
    """

    clear: bool = False
    json: bool = False

    def run(self, console: Console) -> None:
        """Prints the location and size of the caches.

        Raises:
            OSError: A folder can't be deleted.
        """
        files = {what: _files(folder, suffix) for what, (folder, suffix) in _kept().items()}
        caches = {
            what: (folder, len(files[what]), sum(path.stat().st_size for path in files[what]))
            for what, (folder, _) in _kept().items()
        }
        if self.clear:
            for path in itertools.chain(*files.values()):
                path.unlink(missing_ok=True)
        if self.json:
            print_json(
                console,
                {
                    what: {"folder": str(folder), "files": count, "bytes": total, "deleted": self.clear}
                    for what, (folder, count, total) in caches.items()
                },
            )
            return
        table = Listing(("what", "folder"), ("files", "bytes"), "deleted" if self.clear else "")
        for what, (folder, count, total) in caches.items():
            table.add(what, str(folder), str(count), size(total))
        table.print(console)


def _kept() -> dict[str, tuple[Path, str]]:
    """Returns the folders and file suffixes by kind of cache."""
    ours = program_cache.cache_folder()
    folders = {
        "programs": (ours / "programs", ".program"),
        "kernels": (ours / "kernels", ".kernel"),
        "schedules": (ours / "schedules", ".json"),
    }
    native = objects.cache_folder()
    return folders if native is None else {**folders, "native code": (native, ".o")}


def _files(folder: Path, suffix: str) -> list[Path]:
    entries = folder.iterdir() if folder.is_dir() else ()
    return [path for path in entries if path.is_file() and path.suffix == suffix]
