"""Documents of text, in memory or in files that may be larger than it, and tokenizers."""

from __future__ import annotations

import copy
import json
import mmap
import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from tensorgrad.errors import InputError, OptionError
from tensorgrad.tracing.location import user_line

TOKENIZER = "tokenizer.json"

PIECE = 1 << 20
"""About how many characters are tokenized at once."""


class BatchTokenizer(Protocol):
    """What is asked of a `tokenizers.Tokenizer`."""

    def encode_batch_fast(self, input: list[str], /) -> list[Any]:
        """Returns an encoding of each text, which has `ids`."""
        ...


class FastTokenizer(Protocol):
    """What is asked of a tokenizer of transformers."""

    @property
    def backend_tokenizer(self) -> BatchTokenizer:
        """The `tokenizers.Tokenizer` that it uses."""
        ...


Source: TypeAlias = str | os.PathLike[str] | Sequence[str] | Sequence[os.PathLike[str]]
TokenizerLike: TypeAlias = str | os.PathLike[str] | BatchTokenizer | FastTokenizer | Callable[[str], Sequence[int]]

Encode: TypeAlias = Callable[[list[str]], list[Sequence[int]]]
"""Returns the tokens of each of several texts."""


class FileDocuments(Sequence[str]):
    """The documents of files, which are mapped into memory: the system reads the pages that are used.

    Args:
        paths: The files, UTF-8. Their lines may end as on Windows, which reads as on other systems.
        separator: What stands between documents.
        field: The name of the text in documents that are JSON objects; by default a document is text itself.

    Raises:
        OSError: A file can't be read.
    """

    def __init__(self, paths: Sequence[Path], separator: str, field: str | None):
        self.paths, self.field = paths, field
        self._maps = [_mapped(path) for path in paths]
        places = [_places(content, separator.encode()) for content in self._maps]
        self._file = np.repeat(np.arange(len(paths), dtype=np.int32), [len(part) for part in places])
        self._places = np.concatenate([np.zeros((0, 2), np.int64), *places])

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: Any) -> Any:
        """Returns a document.

        Raises:
            InputError: It is not UTF-8, or no JSON object with the field.
        """
        file, (start, stop) = int(self._file[number]), self._places[number]
        try:
            text = self._maps[file][start:stop].decode("utf-8").replace("\r\n", "\n")
            text = text if self.field is None else json.loads(text)[self.field]
        except (ValueError, TypeError, LookupError) as error:
            what = "no UTF-8" if isinstance(error, UnicodeDecodeError) else f"no JSON object with {self.field!r}"
            raise InputError(f"{self.paths[file]}: bytes {start} to {stop} are {what}: {error!r}") from None
        if not isinstance(text, str):
            raise InputError(f"{self.paths[file]}: bytes {start} to {stop}: {self.field!r} is {text!r}, no text")
        return text


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""  # an empty file can't be mapped
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _places(content: mmap.mmap | bytes, separator: bytes) -> np.ndarray:
    """Returns where documents that aren't empty start and stop, `[documents, 2]`; lines may end as on Windows."""
    pattern = rb"\r?\n".join(map(re.escape, separator.split(b"\n")))
    optional = rb"\r?" if pattern.startswith(rb"\r?") else b""  # looked for behind: a literal is found faster

    def between() -> Iterator[int]:
        start = len(BOM_UTF8) if content[: len(BOM_UTF8)] == BOM_UTF8 else 0
        for match in re.finditer(pattern.removeprefix(optional), content):
            stop = match.start()
            if optional and content[stop - 1 : stop] == b"\r":
                stop -= 1
            if stop > start:
                yield from (start, stop)
            start = match.end()
        if start < len(content):
            yield from (start, len(content))

    return np.fromiter(between(), np.int64).reshape(-1, 2)


def documents_of(source: Any, separator: str, field: str | None) -> Sequence[str]:
    """Returns the documents of a source: paths of files, or texts.

    Raises:
        InputError: It is neither, or holds none.
        OptionError: The separator or the field is not a text.
        OSError: A file can't be read.
    """
    if not isinstance(separator, str) or not separator or not isinstance(field, str | None):
        raise OptionError(f"text: separator and field must be texts, got {separator!r} and {field!r}")
    parts = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(parts, Sequence):
        raise InputError(f"text: takes the path of a file, or several, or a list of texts, got {type(source).__name__}")
    if isinstance(source, str) or (parts and all(isinstance(part, os.PathLike) for part in parts)):
        return FileDocuments([Path(part) for part in parts], separator, field)
    if not all(isinstance(part, str) for part in parts):
        raise InputError("text: a list is of texts, or of paths (pathlib.Path)")
    return parts


def encoder_of(tokenizer: Any) -> Encode:
    """Returns what makes tokens of texts.

    Args:
        tokenizer: A `tokenizers.Tokenizer`, or transformers' that has one, the path of its file or of a folder that
            holds `tokenizer.json`, or a function of a text.

    Raises:
        OptionError: It is none of these, or the package tokenizers is missing; or, when it is called, a function
            returns something else than integers.
        InputError: The file holds no tokenizer.
        OSError: The file can't be read.
    """
    if isinstance(tokenizer, str | os.PathLike):
        tokenizer = read_tokenizer(Path(tokenizer))
    tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)  # of transformers' tokenizers
    if hasattr(tokenizer, "encode_batch_fast"):
        whole = _whole(tokenizer)
        return lambda texts: [encoding.ids for encoding in whole.encode_batch_fast(texts)]
    if not callable(tokenizer):
        raise OptionError(
            f"text: tokenizer must be a tokenizers.Tokenizer, a path, or a function of a text, got {tokenizer!r}"
        )
    return lambda texts: [_row(tokenizer(text)) for text in texts]


def _row(tokens: Any) -> Sequence[int]:
    """Returns what a function made of a text.

    Raises:
        OptionError: It is no row of integers.
    """
    row = np.asarray(None if isinstance(tokens, Mapping) else tokens)
    if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
        raise OptionError(f"text: the tokenizer returned {type(tokens).__name__} of a text, no row of integers")
    return cast("Sequence[int]", tokens)


def _whole(tokenizer: Any) -> Any:
    """Returns a tokenizer that neither truncates nor pads texts: a copy if the given one does."""
    if getattr(tokenizer, "truncation", None) is None and getattr(tokenizer, "padding", None) is None:
        return tokenizer
    whole = copy.deepcopy(tokenizer)
    whole.encode_special_tokens = tokenizer.encode_special_tokens  # which copies lack
    whole.no_truncation()
    whole.no_padding()
    return whole


def read_tokenizer(path: Path) -> Any:
    """Returns the tokenizer of a file, or of a folder of Hugging Face's.

    Raises:
        OptionError: The package tokenizers is missing.
        InputError: The file holds no tokenizer.
        OSError: The file can't be read.
    """
    if find_spec("tokenizers") is None:
        raise OptionError(f"{user_line()}: reading {path} needs the package tokenizers: pip install tokenizers")
    from tokenizers import Tokenizer

    file = path / TOKENIZER if path.is_dir() else path
    content = file.read_text(encoding="utf-8")
    try:
        return Tokenizer.from_str(content)
    except Exception as error:  # the library raises no narrower class
        raise InputError(f"{user_line()}: {file} holds no tokenizer: {error}") from None


def counts_of(documents: Sequence[str], encode: Encode) -> np.ndarray:
    """Returns the number of tokens of each document, tokenized piece by piece."""

    def counted() -> Iterator[int]:
        for piece in _pieces(documents):
            yield from map(len, encode(piece))

    return np.fromiter(counted(), np.int64)


def _pieces(documents: Iterable[str]) -> Iterator[list[str]]:
    piece: list[str] = []
    size = 0
    for document in documents:
        piece.append(document)
        size += len(document) + 1
        if size >= PIECE:
            yield piece
            piece, size = [], 0
    yield piece
