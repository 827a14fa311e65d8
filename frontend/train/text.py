"""Batches of tokens: documents packed into rows of a length, or padded to one of several."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tensorgrad.errors import InputError, OptionError
from tensorgrad.ops import random
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.train.data import Batch, Placed, key_of, permutation
from tensorgrad.train.documents import Encode, Source, TokenizerLike, counts_of, documents_of, encoder_of

__all__ = ["Text", "text"]

COLUMNS = ("tokens", "labels", "segments", "positions")
"""The arrays of a batch."""

IGNORED = -100
"""The label of positions without one, which is PyTorch's default as well."""

LEAST = 2
"""The fewest tokens of a document of which one is a label."""

KEPT = 256
"""The number of documents whose tokens are kept, since several rows may be parts of one."""


@dataclass(frozen=True)
class Rows:
    """The rows of an epoch, made of parts of documents.

    Attributes:
        starts: The first part of each row, and the number of parts, `[rows + 1]`.
        documents: The document of each part.
        offsets: The token of the document with which each part starts.
        counts: The number of tokens of each part.
        batches: The rows of each batch, `[batches, size]`; -1 stands for a row of padding.
        lengths: The length of the rows of each batch.
    """

    starts: np.ndarray
    documents: np.ndarray
    offsets: np.ndarray
    counts: np.ndarray
    batches: np.ndarray
    lengths: np.ndarray


class Text(Placed):
    """Batches of tokens, as `text` returns them. The length is the number of batches in an epoch.

    Example:
        >>> data = tg.data.text(["to be", "or not"], lambda text: list(text.encode()), length=4, size=1)
        >>> len(data), data.tokens
        (3, 11)

    Attributes:
        documents: The documents.
        tokens: The number of tokens of all documents.
    """

    makes_copies = True

    def __init__(
        self,
        documents: Sequence[str],
        encode: Encode,
        counts: np.ndarray,
        lengths: tuple[int, ...],
        size: int,
        pack: bool,
        end: int | None,
        key: np.ndarray | None,
        last: str,
    ):
        super().__init__()
        self.documents, self._encode, self._counts = documents, encode, counts
        self._lengths, self._size, self._pack, self._end = lengths, size, pack, end
        self._key, self._last = key, last
        self.tokens = int(counts.sum())
        self._tokens_of: Callable[[int], np.ndarray] = lru_cache(KEPT)(self._tokens)
        self._rows: tuple[int, Rows] = 0, self._epoch_rows(0)

    def __len__(self) -> int:
        return len(self._rows[1].batches)

    def _length(self) -> float:
        return len(self)

    def _kind(self) -> dict[str, Any]:
        key = None if self._key is None else [int(word) for word in self._key]
        return {
            "documents": len(self._counts),
            "tokens": self.tokens,
            "counts": zlib.crc32(self._counts.tobytes()),
            "lengths": [*self._lengths],
            "size": self._size,
            "pack": self._pack,
            "last": self._last,
            "shuffle": key,
        }

    def check_parts(self) -> None:
        """See `Placed`."""
        if len(self._lengths) > 1:
            raise InputError(f"text: rows are of the lengths {self._lengths}: a group takes its parts of equal batches")

    def at(self, epoch: int, index: int) -> Batch:
        """Returns a batch, by its number in an epoch.

        Raises:
            InputError: There is no batch of that number; or a document has changed since it was counted.
        """
        return self.part_at(epoch, index, (), 0, 1)

    def part_at(self, epoch: int, index: int, names: Collection[str], rank: int, size: int) -> Batch:
        """Returns a batch, with only this process's rows of some inputs, or all of them if there is no equal share.

        Raises:
            InputError: There is no batch of that number; or a document has changed since it was counted.
        """
        if not 0 <= index < len(self):
            raise InputError(f"there are {len(self)} batches in an epoch, none of number {index}")
        if self._rows[0] != epoch:
            self._rows = epoch, self._epoch_rows(epoch)
        rows = self._rows[1]
        each, rest = divmod(self._size, size)
        part = slice(0, self._size) if rest else slice(rank * each, (rank + 1) * each)
        length, chosen = int(rows.lengths[index]), rows.batches[index]
        if set(names) >= set(COLUMNS):
            return self._filled(rows, chosen[part], length)
        whole = self._filled(rows, chosen, length)
        return {name: array[part] if name in names else array for name, array in whole.items()}

    def _filled(self, rows: Rows, chosen: np.ndarray, length: int) -> Batch:
        """Returns the arrays of some rows."""
        shape = len(chosen), length
        batch = {name: np.zeros(shape, np.int32) for name in COLUMNS}
        batch["labels"][...] = IGNORED
        for place, row in enumerate(chosen):
            start = 0
            for part in range(rows.starts[row], rows.starts[row + 1]) if row >= 0 else ():
                tokens, offset, count = (
                    self._tokens_of(int(rows.documents[part])),
                    rows.offsets[part],
                    rows.counts[part],
                )
                stop, following = start + count, tokens[offset + 1 : offset + count + 1]
                batch["tokens"][place, start:stop] = tokens[offset : offset + count]
                batch["labels"][place, start : start + len(following)] = following
                batch["segments"][place, start:stop] = part - rows.starts[row] + 1
                batch["positions"][place, start:stop] = np.arange(count)
                start = stop
        return batch

    def _tokens(self, number: int) -> np.ndarray:
        tokens = np.asarray(_ended(self._encode([self.documents[number]])[0], self._end), np.int32)
        if len(tokens) != self._counts[number]:
            raise InputError(f"text: document {number} has {len(tokens)} tokens, it had {self._counts[number]}")
        return tokens

    def _epoch_rows(self, epoch: int) -> Rows:
        packed = self._packed if self._pack else self._padded
        return packed(None if self._key is None else random.fold_in(self._key, epoch))

    def _packed(self, key: Any) -> Rows:
        """Returns rows that documents fill one after the other; they are cut where a row ends."""
        (length,), documents = self._lengths, _order(key, len(self._counts))
        counts = self._counts[documents]
        counts[counts < LEAST] = 0
        stops = np.cumsum(counts)
        # A part starts where a document does, and where a row does.
        begins = np.union1d((stops - counts)[counts > 0], np.arange(0, stops[-1], length))
        numbers = np.searchsorted(stops, begins, "right")
        starts = np.searchsorted(begins, np.arange(0, stops[-1] + length, length))
        # A row of the last token of a document alone has no label.
        is_labeled = np.logical_or.reduceat(stops[numbers] - begins >= LEAST, starts[:-1])
        batches = self._in_batches(np.flatnonzero(is_labeled))
        return Rows(
            starts=starts,
            documents=documents[numbers],
            offsets=begins - (stops - counts)[numbers],
            counts=np.diff(begins, append=stops[-1]),
            batches=batches,
            lengths=np.full(len(batches), length),
        )

    def _padded(self, key: Any) -> Rows:
        """Returns a row for each document, or each part of one that is too long, of the least length that holds it."""
        longest = self._lengths[-1]
        rows_of = -(-np.maximum(self._counts - 1, 0) // longest)  # none of a last token alone, which has no label
        documents = np.repeat(np.arange(len(self._counts)), rows_of)
        offsets = longest * (np.arange(len(documents)) - np.repeat(np.cumsum(rows_of) - rows_of, rows_of))
        counts = np.minimum(self._counts[documents] - offsets, longest)
        order, bucket = _order(key, len(documents)), np.searchsorted(self._lengths, counts)
        parts = [self._in_batches(order[bucket[order] == number]) for number in range(len(self._lengths))]
        lengths = np.repeat(self._lengths, [len(part) for part in parts])
        batches = np.concatenate(parts)
        mixed = _order(None if key is None else random.fold_in(key, 0), len(batches))
        starts = np.arange(len(documents) + 1)
        return Rows(starts, documents, offsets, counts, batches[mixed], lengths[mixed])

    def _batch_count(self, rows: int) -> int:
        return rows // self._size if self._last == "drop" else -(-rows // self._size)

    def _in_batches(self, rows: np.ndarray) -> np.ndarray:
        count = self._batch_count(len(rows)) * self._size
        return np.pad(rows[:count], (0, max(0, count - len(rows))), constant_values=-1).reshape(-1, self._size)

    def __repr__(self) -> str:
        what = f"{len(self._counts)} documents, {self.tokens} tokens"
        return f"Text({what}; {len(self)} of {self._size}; epoch {self.epoch}, batch {self.index})"


def _order(key: Any, count: int) -> np.ndarray:
    return np.arange(count) if key is None else permutation(key, count)


def _ended(tokens: Sequence[int], end: int | None) -> Sequence[int]:
    """Returns the tokens of a document, with one at the end, unless there are none."""
    return tokens if end is None or not len(tokens) else [*tokens, end]


def text(
    source: Source,
    tokenizer: TokenizerLike,
    length: int | Sequence[int],
    size: int,
    *,
    pack: bool = True,
    end: int | None = None,
    shuffle: int | random.Key | None = None,
    last: str = "drop",
    separator: str = "\n",
    field: str | None = None,
) -> Text:
    """Returns batches of the tokens of documents, for models that predict the next one.

    Each is a dict of four i32 arrays `[size, length]`: `tokens`; `labels`, the next token of the same document, or -100
    where there is none; `segments`, the number of the document in its row, from 1, and 0 for padding; and `positions`
    in the document's part of the row, from 0. Packed documents don't attend to each other with the mask
    `segments[:, :, None] == segments[:, None, :]`, which models of `tg.models` take as `attention_mask`. Each row has
    labels: documents of one token, and last tokens that would have a row of their own, are left out.

    Documents are tokenized once to count their tokens, piece by piece, and again where a batch needs them; of files no
    more is kept than where each document is: a document has to fit into memory, a file hasn't. So a batch depends on
    the epoch and its number alone, and a resumed run continues with the next.

    Args:
        source: The path of a text file, several (`pathlib.Path`), which may be larger than memory; or a list of texts,
            a document each.
        tokenizer: A `tokenizers.Tokenizer`, or transformers' that has one, the path of its file or of a folder of
            Hugging Face's with one, or a function that returns the tokens of a text. Documents are whole: truncation
            and padding of a tokenizer are left out.
        length: The number of tokens of a row. Padded rows may have several lengths: each has the least that holds it,
            and all rows of a batch the same.
        size: The number of rows of a batch.
        pack: Whether documents follow each other in rows, cut where a row ends; otherwise each has a row of its own, or
            several if it is too long, padded with token 0.
        end: The token after each document that has any.
        shuffle: A seed or key, with which each epoch has a different order of documents (of rows, if padded).
        last: What to do with the last rows if they don't fill a batch: "drop" or "pad" with rows of padding.
        separator: What stands between the documents of a file, whose lines may end as on Windows.
        field: The name of the text, in files whose documents are JSON objects, as in JSON lines.

    Returns:
        An iterable that continues where it stopped.

    Raises:
        InputError: The source is of another kind, or has no documents of two tokens, or a file's contents are no text
            or no JSON; or no tokenizer is in the file.
        OptionError: A setting is out of range, or no batch is full with "drop"; or the package tokenizers is missing,
            or the tokenizer returns something else than integers.
        OSError: A file can't be read.

    Example:
        >>> data = tg.data.text(["abc", "de"], lambda text: list(text.encode()), length=5, size=1)
        >>> batch = data.at(0, 0)
        >>> batch["tokens"].tolist(), batch["labels"].tolist()
        ([[97, 98, 99, 100, 101]], [[98, 99, -100, 101, -100]])
        >>> batch["segments"].tolist(), batch["positions"].tolist()
        ([[1, 1, 1, 2, 2]], [[0, 1, 2, 0, 1]])
    """
    several = length if isinstance(length, list | tuple) else (length,)
    lengths = tuple(checked_integer(each, "text: length", 1) for each in several)
    if not lengths or sorted({*lengths}) != [*lengths]:
        raise OptionError(f"text: length must be a positive integer, or several from the least, got {length!r}")
    if len(lengths) > 1 and pack:
        raise OptionError("text: packed rows have one length; several are for pack=False")
    size = checked_integer(size, "text: size", 1)
    if last not in ("drop", "pad"):
        raise OptionError(f"text: last must be drop or pad, got {last!r}")
    if end is not None:
        end = checked_integer(end, "text: end", 0)
    key, encode = key_of("text", shuffle), encoder_of(tokenizer)
    documents = documents_of(source, separator, field)
    counts = counts_of(documents, encode)
    counts += (counts > 0) & (end is not None)
    if not (counts >= LEAST).any():
        raise InputError(f"text: there are no documents with tokens, {LEAST} or more, of which one predicts the next")
    result = Text(documents, encode, counts, lengths, size, pack, end, key, last)
    if not len(result):
        raise OptionError(f"text: {result.tokens} tokens fill no batch of {size} rows of {length}; give last='pad'")
    return result
