"""Batches of tokens: each token once, documents apart, any place found again, files read piece by piece."""

from __future__ import annotations

import itertools
import json
from collections import Counter, UserDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from draws import generator
from tokenizers import Tokenizer, models, pre_tokenizers

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ShapeError
from tensorgrad.train import documents as documents_module

untyped: Any = tg

GENERATOR = generator(0)
TEXTS = ["".join(map(chr, GENERATOR.integers(97, 123, count))) for count in (5, 0, 1, 17, 8, 2, 30, 7, 3, 11, 8, 1)]
END = 10


def encode(text: str) -> list[int]:
    return list(text.encode())


def parts(data: Any, epoch: int) -> list[list[int]]:
    """Returns the tokens of each part of a document in an epoch, after checking labels and positions against them."""
    found: list[list[int]] = []
    for index in range(len(data)):
        batch = data.at(epoch, index)
        assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}
        for tokens, labels, segments, positions in zip(*batch.values(), strict=True):
            assert (labels >= 0).any() or not segments.any()
            assert [number for number, _ in itertools.groupby(segments) if number] == [*range(1, segments.max() + 1)]
            assert not tokens[segments == 0].any() and (labels[segments == 0] == -100).all()
            for number in range(1, segments.max() + 1):
                part = segments == number
                assert positions[part].tolist() == [*range(part.sum())]
                assert labels[part][:-1].tolist() == tokens[part][1:].tolist()
                found.append([*tokens[part].tolist(), *(label for label in labels[part][-1:].tolist() if label >= 0)])
    return found


@pytest.mark.parametrize("shuffle", [None, 0])
@pytest.mark.parametrize("end", [None, END])
@pytest.mark.parametrize(
    "options",
    [
        {"length": 7},
        {"length": 10},  # which leaves a row of one token
        {"length": 1},
        {"length": 93},
        {"length": 8, "pack": False},
        {"length": 1, "pack": False},
        {"length": [2, 8, 16], "pack": False},
    ],
    ids=str,
)
def test_each_token_is_predicted_once(options: dict[str, Any], end: int | None, shuffle: int | None) -> None:
    """The pairs of a token and the next one in its document are those of the texts, in each epoch."""
    whole = [[*encode(text), *([] if end is None else [end])] for text in TEXTS if text]
    expected = Counter(pair for tokens in whole for pair in itertools.pairwise(tokens))
    data = tg.data.text(TEXTS, encode, size=2, end=end, shuffle=shuffle, last="pad", **options)
    assert data.tokens == sum(map(len, whole))
    epochs = [parts(data, epoch) for epoch in (0, 1)]
    for found in epochs:
        assert Counter(pair for part in found for pair in itertools.pairwise(part)) == expected
    assert (epochs[0] == epochs[1]) is (shuffle is None)


def test_rows_of_several_lengths() -> None:
    data = tg.data.text(TEXTS, encode, [2, 8, 16], 2, pack=False, last="pad")
    for batch in data:
        length = batch["tokens"].shape[1]
        counts = (batch["segments"] > 0).sum(1)
        assert all(count <= length and (count == 0 or count > {2: 0, 8: 2, 16: 8}[length]) for count in counts)
    with pytest.raises(InputError, match=r"rows are of the lengths \(2, 8, 16\): a group takes"):
        data.check_parts()


def test_full_batches_alone() -> None:
    data = tg.data.text(TEXTS, encode, 7, 4)
    assert len(data) == 3 and all((batch["segments"] > 0).all() for batch in data)
    assert data.epoch == 1


def test_any_place_is_found_again() -> None:
    for options in ({"length": 7}, {"length": [4, 8], "pack": False}):

        def made(options: Any = options) -> Any:
            return tg.data.text(TEXTS, encode, size=2, shuffle=3, **options)

        def endless(data: Any) -> Any:
            while True:
                yield from data

        expected = list(itertools.islice(endless(made()), 12))
        for count in range(9):
            data, other = made(), made()
            for _ in itertools.islice(endless(data), count):
                pass
            other.load_state_dict(json.loads(json.dumps(data.state_dict())))
            following = next(endless(other))
            assert all(np.array_equal(following[name], expected[count][name]) for name in following)
    with pytest.raises(InputError, match=r"tokens is 92, it was 93"):
        tg.data.text([*TEXTS[:-1], ""], encode, 7, 2).load_state_dict(tg.data.text(TEXTS, encode, 7, 2).state_dict())


def test_parts_of_a_group() -> None:
    data = tg.data.text(TEXTS, encode, 7, 4, shuffle=1)
    whole = data.at(1, 2)
    for names in (tuple(whole), ("tokens", "labels")):
        shares = [data.part_at(1, 2, names, rank, 2) for rank in range(2)]
        for name in whole:
            joined = np.concatenate([share[name] for share in shares]) if name in names else shares[1][name]
            assert np.array_equal(joined, whole[name])
    assert np.array_equal(data.part_at(1, 2, tuple(whole), 2, 3)["tokens"], whole["tokens"])


@pytest.mark.parametrize("separator", ["\n", "\n---\n"])
def test_files(separator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "PIECE", 10)
    paths = [tmp_path / name for name in ("a.txt", "empty.txt", "b.txt")]
    for path, texts in zip(paths, (TEXTS[:5], [], ["née", *TEXTS[5:]]), strict=True):
        path.write_text(separator.join(texts), encoding="utf-8")
    pieces: list[int] = []

    class Counted:
        """A tokenizer that notes how much it is given at once."""

        def encode_batch_fast(self, texts: list[str]) -> Any:
            pieces.append(sum(map(len, texts[:-1])))
            return [Counted.of(text) for text in texts]

        @staticmethod
        def of(text: str) -> Any:
            return type("Encoding", (), {"ids": encode(text)})

    data = tg.data.text(paths, Counted(), 7, 2, shuffle=5, separator=separator)
    assert len(pieces) > 5 and max(pieces) < 10
    texts = [text for text in (*TEXTS[:5], "née", *TEXTS[5:]) if text]
    assert [*data.documents] == texts
    expected = tg.data.text(texts, encode, 7, 2, shuffle=5)
    for batch, other in zip(data, expected, strict=True):
        assert all(np.array_equal(batch[name], other[name]) for name in other)
    single = tg.data.text(str(paths[0]), encode, 5, 1, separator=separator)
    assert [*single.documents] == [text for text in TEXTS[:5] if text]


@pytest.mark.parametrize(
    ("separator", "expected"), [("\n", ["née", "two", "lines", "last"]), ("\n\n", ["née", "two\nlines", "last"])]
)
def test_files_of_windows(separator: str, expected: list[str], tmp_path: Path) -> None:
    """Documents are those of a file without a byte order mark, whose lines end by a newline alone."""
    text = "née\n\ntwo\nlines\n\nlast\n"
    file = tmp_path / "texts.txt"
    for content in (text.encode(), b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()):
        file.write_bytes(content)
        data = tg.data.text(file, encode, 7, 1, separator=separator, last="pad")
        assert [document.rstrip("\n") for document in data.documents] == expected
    file.write_bytes(b"\xef\xbb\xbf\r\n")
    with pytest.raises(InputError, match="there are no documents"):
        tg.data.text(file, encode, 7, 1)


def test_files_of_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text, "id": 0}) + "\n" for text in TEXTS), encoding="utf-8")
    data = tg.data.text(file, encode, 7, 2, field="text")
    for batch, other in zip(data, tg.data.text(TEXTS, encode, 7, 2), strict=True):
        assert np.array_equal(batch["tokens"], other["tokens"])
    with pytest.raises(InputError, match=r"texts.jsonl: bytes 0 to \d+ are no JSON object with 'other': KeyError"):
        tg.data.text(file, encode, 7, 2, field="other")
    with pytest.raises(InputError, match=r"texts.jsonl: bytes 0 to \d+: 'id' is 0, no text"):
        tg.data.text(file, encode, 7, 2, field="id")
    file.write_bytes(b"abc\n\xff\xfe")
    with pytest.raises(InputError, match=r"bytes 4 to 6 are no UTF-8"):
        tg.data.text(file, encode, 7, 2)


def test_tokenizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "to": 1, "be": 2, "or": 3, "not": 4}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    fast: Any = SimpleNamespace(backend_tokenizer=words)  # as transformers' tokenizers are
    for tokenizer in (words, fast, tmp_path, str(tmp_path / "tokenizer.json"), lambda text: words.encode(text).ids):
        batch = tg.data.text(["to be", "or not to see"], tokenizer, 6, 1).at(0, 0)
        assert batch["tokens"].tolist() == [[1, 2, 3, 4, 1, 0]]
    for result in (UserDict(input_ids=[1, 2]), words.encode("to be"), [[1, 2]], ["to"], [0.5]):
        with pytest.raises(OptionError, match=r"the tokenizer returned \w+ of a text, no row of integers"):
            untyped.data.text(["to be"], lambda text, result=result: result, 6, 1)
    with pytest.raises(OptionError, match=r"tokenizer must be a tokenizers\.Tokenizer, a path, or a function"):
        untyped.data.text(["to be"], 3, 6, 1)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json holds no tokenizer"):
        tg.data.text(["to be"], tmp_path, 6, 1)
    monkeypatch.setattr(documents_module, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match="needs the package tokenizers: pip install tokenizers"):
        tg.data.text(["to be"], tmp_path, 6, 1)


def test_tokenizers_that_truncate_and_pad(tmp_path: Path) -> None:
    """Documents are whole, as a tokenizer's file of another use, such as a classifier's, doesn't have them."""
    words = Tokenizer(models.WordLevel({"[PAD]": 0, "a": 1, "b": 2}, unk_token="[PAD]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.enable_truncation(4)
    words.enable_padding(length=6)
    words.save(str(tmp_path / "tokenizer.json"))
    for tokenizer in (words, tmp_path):
        data = tg.data.text(["a b a b a b b", "a b"], tokenizer, 3, 3)
        assert data.at(0, 0)["tokens"].tolist() == [[1, 2, 1], [2, 1, 2], [2, 1, 2]]
    assert len(words.encode("a b a b a b b").ids) == 6


def test_a_text_that_changes() -> None:
    texts = [*TEXTS]
    data = tg.data.text(texts, encode, 7, 2)
    texts[3] = "changed"
    with pytest.raises(InputError, match="document 3 has 7 tokens, it had 17"):
        list(data)


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_documents_of_a_row_are_apart(device: tg.DeviceName) -> None:
    """The logits of packed documents are those of each alone."""
    rotary = tg.models.LlamaOptions(
        vocab_size=30, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4
    )
    learned = tg.models.GPT2Options(vocab_size=30, n_positions=16, n_embd=16, n_layer=2, n_head=4)
    batch = tg.data.text(TEXTS, lambda text: [ord(each) - 97 for each in text], 16, 4).at(0, 0)
    assert batch["segments"].max() > 2

    def logits(model: Any, tokens: Any, segments: Any, positions: Any) -> Any:
        apart = segments[:, :, None] == segments[:, None, :]
        return tg.nn.inference(model)(tokens, apart, positions)

    for made in (tg.models.LlamaForCausalLM(rotary), tg.models.GPT2LMHeadModel(learned)):
        model = made.initialized(0)
        with pytest.raises(ShapeError, match=r"attention_mask is \[batch, keys\] or .*, got the shape \(3,\)"):
            tg.nn.inference(model)(batch["tokens"], np.ones(3))
        results = np.asarray(
            tg.jit(logits, device=device)(model, batch["tokens"], batch["segments"], batch["positions"])
        )
        for row, (tokens, segments) in enumerate(zip(batch["tokens"], batch["segments"], strict=True)):
            for number in range(1, segments.max() + 1):
                alone = np.asarray(tg.nn.inference(model)(tokens[segments == number][None]))[0]
                np.testing.assert_allclose(results[row, segments == number], alone, rtol=1e-4, atol=1e-5)


def test_a_training_of_several_lengths() -> None:
    """The lengths of rows are the buckets of an extent, of which a training has a program each."""
    texts = [text for text in TEXTS for _ in range(3)]
    data = tg.data.text(texts, lambda text: [ord(each) - 97 for each in text], [8, 16], 2, pack=False, shuffle=0)

    def loss(model: Any, tokens: Any, labels: Any) -> Any:
        return tg.cross_entropy(model(tokens), labels, ignore_index=-100)

    length = tg.dim("length", at_most=16, buckets=(8, 16))
    training = tg.compile(
        tg.nn.Sequential(tg.nn.Embedding(26, 8), tg.nn.Linear(8, 26)),
        loss=loss,
        optimizer=tg.optim.adam(0.05),
        inputs={name: tg.spec((2, length), "i32") for name in ("tokens", "labels")},
        device="numpy",
    )
    batches = [{name: batch[name] for name in ("tokens", "labels")} for batch in data]
    assert {batch["tokens"].shape[1] for batch in batches} == {8, 16}
    losses = [float(training.step(**batch)) for _ in range(10) for batch in batches]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"length": 0}, OptionError, "length must be a positive integer, got 0"),
        ({"length": [8, 4], "pack": False}, OptionError, r"several from the least, got \[8, 4\]"),
        ({"length": [4, 8]}, OptionError, "packed rows have one length"),
        ({"size": 0}, OptionError, "size must be a positive integer, got 0"),
        ({"last": "keep"}, OptionError, "last must be drop or pad, got 'keep'"),
        ({"end": -1}, OptionError, "end must be an integer from 0, got -1"),
        ({"shuffle": "yes"}, OptionError, "text: shuffle must be a seed or a key"),
        ({"separator": ""}, OptionError, "separator and field must be texts"),
        ({"size": 50}, OptionError, "93 tokens fill no batch of 50 rows of 7; give last='pad'"),
        ({"source": ["", ""]}, InputError, "there are no documents with tokens"),
        ({"source": ["a", "b"]}, InputError, "there are no documents with tokens, 2 or more"),
        ({"source": []}, InputError, "there are no documents with tokens"),
        ({"source": [1]}, InputError, "a list is of texts, or of paths"),
        ({"source": 3}, InputError, "takes the path of a file, or several, or a list of texts, got int"),
    ],
)
def test_mistakes(change: dict[str, Any], error: type[Exception], message: str) -> None:
    options = {"source": TEXTS, "length": 7, "size": 2, **change}
    with pytest.raises(error, match=message):
        untyped.data.text(tokenizer=encode, **options)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.txt"):
        tg.data.text(tmp_path / "none.txt", encode, 7, 2)
