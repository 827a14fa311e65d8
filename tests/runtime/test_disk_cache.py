"""The cache on disk: entries under their own key only, in a folder of the user's own, of bounded size."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tensorgrad.runtime import cache
from tensorgrad.runtime.cache import DiskCache
from tensorgrad.runtime.cpu import code, objects
from tensorgrad.runtime.files import PART


@pytest.fixture
def disk(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "above" / "folder", ".entry", 1000)


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_folders_are_the_users_own_whatever_the_umask(umask: int, disk: DiskCache) -> None:
    disk.write("a", b"data")
    for folder in (disk.folder, disk.folder.parent):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert disk.path("a").stat().st_mode & 0o077 == 0
    assert disk.read("a") == b"data"


def test_a_folder_that_others_read_is_closed(disk: DiskCache) -> None:
    disk.write("a", b"data")
    disk.folder.chmod(0o755)
    assert disk.read("a") == b"data"
    assert disk.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_write_is_refused(mode: int, disk: DiskCache, caplog: pytest.LogCaptureFixture) -> None:
    disk.write("a", b"data")
    disk.folder.chmod(mode)
    for _ in range(3):
        assert disk.read("a") is None
        disk.write("b", b"data")
    assert not disk.path("b").exists()
    assert [record.levelno for record in caplog.records] == [logging.WARNING], "one line, not one for each entry"
    assert f"{disk.folder} is not used: others may write to it (mode {mode:04o})" in caplog.text


def test_what_belongs_to_others_is_refused(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk.write("a", b"data")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert disk.read("a") is None
    disk.write("b", b"data")
    monkeypatch.undo()
    assert f"is not used: it belongs to user {user}, not to {user + 1}" in caplog.text
    assert not disk.path("b").exists() and disk.read("a") == b"data"


def test_a_file_of_another_user_is_absent(disk: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.write("a", b"data")
    monkeypatch.setattr(cache, "is_private", lambda folder: True)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert disk.read("a") is None


def test_a_link_is_absent(disk: DiskCache) -> None:
    disk.write("a", b"data")
    target = disk.path("a").rename(disk.folder.parent / "elsewhere")
    disk.path("a").symlink_to(target)
    assert disk.read("a") is None


def swapped(disk: DiskCache) -> None:
    disk.path("b").replace(disk.path("a"))


def overwritten(change: Callable[[bytes], bytes]) -> Callable[[DiskCache], None]:
    def damage(disk: DiskCache) -> None:
        disk.path("a").write_bytes(change(disk.path("a").read_bytes()))

    return damage


DAMAGES: dict[str, Callable[[DiskCache], None]] = {
    "swapped": swapped,
    "empty": overwritten(lambda content: b""),
    "short": overwritten(lambda content: content[:-1]),
    "long": overwritten(lambda content: content + b"\0"),
    "first bit": overwritten(lambda content: bytes([content[0] ^ 1]) + content[1:]),
    "last bit": overwritten(lambda content: content[:-1] + bytes([content[-1] ^ 1])),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_dropped(name: str, disk: DiskCache, caplog: pytest.LogCaptureFixture) -> None:
    disk.write("a", b"data")
    disk.write("b", b"other")
    DAMAGES[name](disk)
    assert disk.read("a") is None
    assert not disk.path("a").exists() and "is damaged, and is made anew" in caplog.text
    disk.write("a", b"data")
    assert disk.read("a") == b"data"


def test_the_least_recently_used_make_room(disk: DiskCache) -> None:
    disk.write("a", bytes(200))
    (disk.folder / f"killed{PART}").write_bytes(bytes(200))
    os.utime(disk.folder / f"killed{PART}", (0, 0))
    for age, key in enumerate(("a", "b", "c", "d")):
        disk.write(key, bytes(200))
        os.utime(disk.path(key), (age + 1, age + 1))
    assert disk.read("a") == bytes(200), "which makes it the last used"
    disk.write("e", bytes(200))
    assert {path.stem for path in disk.folder.iterdir()} == {"a", "c", "d", "e"}
    disk.write("f", bytes(1001))
    assert disk.read("f") is None and disk.read("e") == bytes(200), "one that is too large displaces nothing"


def test_small_entries_seldom_trim(disk: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """By chance, as a trim looks at every file: once in as many bytes as may be too many."""
    small = bytes(int(0.5 * cache.TRIM_SHARE * disk.most_bytes))
    disk.write("a", bytes(disk.most_bytes - 100))
    os.utime(disk.path("a"), (0, 0))
    for key, draw, is_kept in (("b", 0.6, True), ("c", 0.6, True), ("d", 0.4, False)):
        monkeypatch.setattr(random, "random", lambda draw=draw: draw)
        disk.write(key, small)
        assert disk.path("a").exists() == is_kept


def test_swapped_object_code_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than one kernel running in place of another, or a call of an address that isn't there."""
    monkeypatch.setenv(objects.CACHE_VARIABLE, str(tmp_path))
    texts = [f"define void @{name}(ptr %x) {{\n  ret void\n}}\n" for name in "fg"]
    paths: list[Path] = []
    for text in texts:
        code.NativeCode(text)
        paths += [path for path in tmp_path.glob("*.o") if path not in paths]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)
    assert code.NativeCode(texts[0]).cached == 0
    assert code.NativeCode(texts[0]).address("f")


def test_a_missing_function_is_an_error() -> None:
    native = code.NativeCode("define void @f(ptr %x) {\n  ret void\n}\n")
    for find in (native.address, lambda name: native.words(name, 2)):
        with pytest.raises(code.DeviceError, match="does not define 'g'"):
            find("g")


def test_a_text_with_a_nul_is_refused() -> None:
    """LLVM would read the text up to there, and the functions after it would be missing."""
    text = "define void @f(ptr %x) {\n  ret void\n}\n\0define void @g() {\n  ret void\n}\n"
    with pytest.raises(code.DeviceError, match="it contains a NUL character"):
        code.NativeCode(text)
