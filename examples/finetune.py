"""Fine-tunes a language model by an adapter of low rank (LoRA), and writes a text with it.

Reads a folder in Hugging Face's layout, with a tokenizer, and trains on the language reference that comes with Python
(`pydoc_data.topics`). Writes the adapter as PEFT does, and the merged model as a folder, both of which Hugging Face's
libraries read. Without a folder it makes one first, of a small Llama with random weights.

python examples/finetune.py --folder SmolLM2-135M --device auto
tg launch -n 2 examples/finetune.py --device cpu
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, Literal

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import tensorgrad as tg

END = "<|endoftext|>"
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Sizes:
    """The sizes of the training, and those of the model that is made if there is none."""

    length: int = 128
    batch: int = 8
    steps: int = 200
    learning_rate: float = 1e-3
    rank: int = 8
    dropout: float = 0.05
    vocabulary: int = 1024
    width: int = 64
    layers: int = 2


def make_folder(folder: Path, sizes: Sizes) -> None:
    """Writes a small Llama with random weights, and a tokenizer trained on the texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=sizes.vocabulary, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(documents(), trainer)
    options = tg.models.LlamaOptions(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=sizes.width,
        intermediate_size=2 * sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    tg.models.save_pretrained(tg.models.LlamaForCausalLM(options).initialized(0), folder)
    tokenizer.save(str(folder / TOKENIZER))


def documents() -> list[str]:
    """Returns the chapters of the language reference."""
    return [topics[name] for name in sorted(topics)]


def loss(model: Any, tokens: Any, labels: Any, segments: Any, positions: Any, key: Any = None) -> tg.Tensor:
    """Returns the mean loss of the next tokens; a row's documents don't attend to each other."""
    apart = segments[:, :, None] == segments[:, None, :]
    logits = model(tokens, attention_mask=apart, position_ids=positions, key=key)
    return tg.cross_entropy(logits, labels, ignore_index=-100)


def training_loss(model: Any, tokens: Any, labels: Any, segments: Any, positions: Any, key: Any) -> tg.Tensor:
    """Returns the loss with dropout, which needs a key: each step has its own."""
    return loss(model, tokens, labels, segments, positions, key)


def evaluation_loss(model: Any, tokens: Any, labels: Any, segments: Any, positions: Any) -> tg.Tensor:
    """Returns the loss without dropout."""
    return loss(tg.nn.inference(model), tokens, labels, segments, positions)


@dataclass(frozen=True)
class Result:
    """What a training gives.

    Attributes:
        training: The training.
        before: The loss on the validation texts, before.
        after: The same, after.
    """

    training: tg.Training
    before: float
    after: float


def train(
    folder: Path,
    sizes: Sizes,
    device: tg.DeviceName,
    seed: int,
    progress: bool = True,
    group: Any = None,
    bits: Literal[8, 4] | None = None,
    dtype: str = "f32",
) -> Result:
    """Adapts the model of a folder, on weights of few bits if asked; a tenth of the texts is left for validation."""
    model = tg.models.from_pretrained(folder, dtype=dtype)
    if bits is not None:
        model = model.initialized()
        tg.nn.quantize(model, bits)
    tg.nn.lora(model, rank=sizes.rank, alpha=2 * sizes.rank, dropout=sizes.dropout)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    texts, end = documents(), tokenizer.token_to_id(END)
    data = tg.data.text(texts[len(texts) // 10 :], tokenizer, sizes.length, sizes.batch, end=end, shuffle=seed)
    held_out = tg.data.text(texts[: len(texts) // 10], tokenizer, sizes.length, sizes.batch, end=end)
    batches = [held_out.at(0, index) for index in range(min(4, len(held_out)))]
    training = tg.compile(
        model,
        loss=training_loss,
        optimizer=tg.optim.adamw(tg.optim.schedules.cosine(sizes.learning_rate, sizes.steps), clip_norm=1.0),
        inputs=dict.fromkeys(batches[0], tg.spec((sizes.batch, sizes.length), "i32")),
        device=device,
        seed=seed,
        group=group,
    )
    before = training.evaluate(evaluation_loss, batches)
    tg.fit(training, data, steps=sizes.steps, progress=progress)
    return Result(training, before, training.evaluate(evaluation_loss, batches))


def write(model: Any, folder: Path, out: Path, gguf: Literal["f32", "f16", "q8_0"] | None = None) -> None:
    """Writes the adapter, and the merged model with the folder's tokenizer."""
    tg.nn.save_lora(model, out / "adapter")
    merged = tg.nn.merge_lora(model)
    tg.models.save_pretrained(merged, out / "merged")
    shutil.copy(folder / TOKENIZER, out / "merged" / TOKENIZER)
    if gguf is not None:
        tg.models.save_gguf(merged, out / "merged.gguf", gguf, tokenizer=out / "merged")


def written(folder: Path, prompt: str, count: int, device: tg.DeviceName, seed: int) -> Iterator[str]:
    """Yields what the model of a folder writes after a prompt, piece by piece."""
    model: Any = tg.models.from_pretrained(folder).initialized()
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    end, stream = tokenizer.token_to_id(END), decoders.DecodeStream()
    stop = () if end is None else end
    for token in model.stream(
        tokenizer.encode(prompt).ids, count, temperature=0.8, top_k=50, stop=stop, seed=seed, device=device
    ):
        yield stream.step(tokenizer, int(token[0])) or "" if token[0] >= 0 else ""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="a model and its tokenizer; by default a small one is made")
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "cpu", "numpy"])
    parser.add_argument("--steps", type=int, default=Sizes.steps)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/finetune"), help="where the models go")
    parser.add_argument("--gguf", choices=["f32", "f16", "q8_0"], help="also write merged.gguf, for llama.cpp")
    parser.add_argument("--bits", type=int, choices=[8, 4], help="quantize the weights first, to int8 or NF4 (QLoRA)")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="how the frozen weights are kept")
    parser.add_argument("--prompt", default="The ")
    parser.add_argument("--length", type=int, default=64, help="how many tokens to write")
    options = parser.parse_args(arguments)
    if options.steps < 1 or options.length < 0 or not options.prompt:
        parser.error("--steps must be at least 1, --length at least 0, and --prompt not empty")
    group, sizes = tg.distributed.group(), Sizes(steps=options.steps)
    folder = options.folder or options.out / "base"
    is_first = tg.distributed.is_first()
    if options.folder is None and is_first:
        make_folder(folder, sizes)
    tg.distributed.barrier()
    result = train(folder, sizes, options.device, options.seed, is_first, group, options.bits, options.dtype)
    model = result.training.model()
    if not is_first:
        return
    write(model, folder, options.out, options.gguf)
    print(f"backend: {result.training.device}")
    print(f"validation loss: {result.before:.3f} before, {result.after:.3f} after {sizes.steps} steps")
    print(f"adapter: {options.out / 'adapter'}, merged model: {options.out / 'merged'}")
    print(options.prompt, end="")
    for piece in written(options.out / "merged", options.prompt, options.length, options.device, options.seed):
        print(piece, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
