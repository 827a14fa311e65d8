"""Tokenizers of Hugging Face's folders as GGUF holds them: those that merge pairs of bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tensorgrad.errors import InputError
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.tracing.location import user_line

FILE = "tokenizer.json"

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {None: "gpt-2", rf"{WORDS}\p{{N}}{{1,3}}{REST}": "llama-bpe", rf"{WORDS}\p{{N}}{REST}": "qwen2"}
"""llama.cpp's names of how texts are split before pairs are merged, by the pattern; None is that of GPT-2."""


def add_vocabulary(writer: Any, folder: Path | None, size: int, split: str | None) -> None:
    """Adds a tokenizer to a file that is being written, or says that there is none.

    Args:
        writer: The `gguf.GGUFWriter`.
        folder: A folder with `tokenizer.json`, or None.
        size: The number of tokens of the model.
        split: llama.cpp's name of how texts are split, if the tokenizer doesn't say it in a way that is known here.

    Raises:
        InputError: The tokenizer is of another kind, is malformed, has more tokens than the model, or how it splits
            texts has no name here.
        OSError: The file can't be read.
    """
    from gguf import SpecialVocab, TokenType

    writer.add_vocab_size(size)
    if folder is None:
        writer.add_tokenizer_model("none")
        return
    content = _read(folder / FILE)
    vocabulary: dict[int, str] = {number: token for token, number in content["model"]["vocab"].items()}
    added = {token["id"]: token for token in content.get("added_tokens") or ()}
    vocabulary.update({number: token["content"] for number, token in added.items()})
    if max(vocabulary) >= size:
        raise InputError(f"{user_line()}: {folder / FILE} has the token {max(vocabulary)}, the model {size} tokens")
    kinds = {True: TokenType.CONTROL, False: TokenType.USER_DEFINED}
    types = {number: kinds[bool(token.get("special"))] for number, token in added.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_split(content, folder / FILE) if split is None else split)
    writer.add_token_list([vocabulary.get(number, f"[PAD{number}]") for number in range(size)])
    writer.add_token_types(
        [
            types.get(number, TokenType.NORMAL if number in vocabulary else TokenType.UNUSED).value
            for number in range(size)
        ]
    )
    SpecialVocab(folder, load_merges=True, n_vocab=size).add_to_gguf(writer, quiet=True)


def _read(file: Path) -> dict[str, Any]:
    """Returns the content of a tokenizer that merges pairs of bytes.

    Raises:
        InputError: It is none, or malformed.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        kind, vocabulary = content["model"]["type"], content["model"]["vocab"]
        pieces = [step["type"] for step in _steps(content)]
    except (*MALFORMED, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{user_line()}: {file} holds no tokenizer: {error!r}") from None
    if kind != "BPE" or "ByteLevel" not in pieces or not vocabulary:
        raise InputError(
            f"{user_line()}: {file} is a {kind} that splits by {', '.join(pieces) or 'nothing'}; save_gguf writes BPE "
            "of bytes (ByteLevel); without a tokenizer the file holds the model alone"
        )
    return content


def _steps(content: Any) -> list[dict[str, Any]]:
    splitter = content.get("pre_tokenizer") or {}
    steps: list[dict[str, Any]] = splitter.get("pretokenizers") or ([splitter] if splitter else [])
    return steps


def _split(content: Any, file: Path) -> str:
    """Returns llama.cpp's name of how a tokenizer splits texts.

    Raises:
        InputError: It has none here.
    """
    steps = _steps(content)
    patterns = [step["pattern"].get("Regex") for step in steps if step["type"] == "Split"]
    own = [None] if any(step["type"] == "ByteLevel" and step.get("use_regex", True) for step in steps) else []
    found = [*patterns, *own]
    others = {step["type"] for step in steps if step.get("add_prefix_space")} | (
        {step["type"] for step in steps} - {"Split", "ByteLevel"}
    )
    if len(found) != 1 or found[0] not in SPLITS or others:
        raise InputError(
            f"{user_line()}: how {file} splits texts has no name here: pass llama.cpp's as split=, such as 'smollm'"
        )
    return SPLITS[found[0]]
