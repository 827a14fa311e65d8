"""Text out of a file: a generator reads a prompt, and computes each further token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.errors import InputError
from tensorgrad.runtime.loaded import Loaded
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.program import ProgramRole
from tensorgrad.runtime.sampling import Sampler, checked_count, checked_prompt, checked_stops
from tensorgrad.runtime.saved import CAPACITY, GENERATOR, LENGTH, LOGITS, STOP, TOKENS, Saved


class LoadedGenerator(Loaded):
    """A language model with its parameters, for texts of up to a number of tokens.

    What a prompt shares with the text before it, from the start, is not read again.

    Attributes:
        capacity: The most tokens of a text, prompt included.
        vocabulary: The number of tokens that there are.
        stops: The tokens that end a text unless others are given: those that the model's folder names.

    Example:
        >>> import tempfile
        >>> options = tg.models.GPT2Options(vocab_size=50, n_positions=32, n_embd=16, n_layer=1, n_head=2)
        >>> model = tg.models.GPT2LMHeadModel(options).initialized(0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tg.save_generator(model, f"{folder}/model.tg", capacity=16, prompt=8)
        ...     generator = tg.load(f"{folder}/model.tg", device="wgpu")
        >>> generator.capacity, len(generator.generate([1, 2, 3], max_new_tokens=4))
        (16, 4)
    """

    kind, use = GENERATOR, "a generator: generate(...) continues a text"

    def __init__(self, saved: Saved, executable: Executable, device: str, others: Executable | None = None):
        super().__init__(saved, executable, device)
        self._parts = [(self._executable, 1)]
        if others is not None:
            self._parts.insert(0, (others, others.program_inputs[TOKENS].shape[1]))
        self.capacity = int(self._host.settings[CAPACITY])
        (self.vocabulary,) = self.program.slots(ProgramRole.OUTPUT)[LOGITS].shape
        self.stops = [int(token) for name, token in self._host.settings.items() if name.startswith(STOP)]
        self._text: list[int] = []
        self._turn = 0

    def load_parameters(self, values: Mapping[str, Any]) -> None:
        """Sets parameters by path; see `Loaded.load_parameters`. What was read before them is read again."""
        with self._lock:
            super().load_parameters(values)
            self._text.clear()
            self._turn += 1

    def generate(
        self,
        prompt: Any,
        max_new_tokens: int = 64,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | Sequence[int] | None = None,
        seed: int = 0,
    ) -> list[int]:
        """Returns the tokens that follow a prompt, without the one that ends the text; see `stream`.

        Args:
            prompt: One or more tokens.
            max_new_tokens: The most tokens that are added.
            temperature: See `tg.models.LanguageModel.stream`, as for the other options.
            top_k: See there.
            top_p: See there.
            stop: The tokens that end a text; by default `stops`, `()` for none.
            seed: See there.

        Raises:
            InputError, OptionError, DeviceError: See `stream`.
        """
        return list(
            self.stream(prompt, max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, stop=stop, seed=seed)
        )

    def stream(
        self,
        prompt: Any,
        max_new_tokens: int = 64,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | Sequence[int] | None = None,
        seed: int = 0,
    ) -> Iterator[int]:
        """Yields the tokens that follow a prompt, each as soon as it is computed, until one that ends the text.

        Args:
            prompt: One or more tokens.
            max_new_tokens: The most tokens that are added.
            temperature: See `tg.models.LanguageModel.stream`, as for the other options.
            top_k: See there.
            top_p: See there.
            stop: As for `generate`.
            seed: See there.

        Raises:
            InputError: The prompt is empty, has what is no token, or exceeds the capacity with what is added; nothing
                has changed. Or, from the iterator, another text has begun.
            OptionError: An option is out of its range; nothing has changed.
            DeviceError: The device reported an error.
        """
        tokens, count = checked_prompt(prompt, self.vocabulary), checked_count(max_new_tokens)
        draw = Sampler(temperature, top_k, top_p, seed)
        stops = self.stops if stop is None else checked_stops(stop, self.vocabulary)
        if len(tokens) + count > self.capacity:
            asked = f"a prompt of {len(tokens)} tokens and {count} new ones"
            raise InputError(f"generate: {asked} exceed the capacity of {self.capacity}")
        self._turn += 1
        return self._tokens(tokens, count, draw, stops, self._turn)

    def _tokens(self, prompt: list[int], count: int, draw: Sampler, stops: list[int], turn: int) -> Iterator[int]:
        new = prompt
        for index in range(count):
            with self._lock:
                if self._turn != turn:
                    raise InputError("generate: another text has begun, which this one can't go on beside")
                if index == 0:
                    new = prompt[self._keep(prompt) :]
                logits = self._read(new)
            token = int(draw(logits.numpy()[None])[0])
            if token in stops:
                return
            yield token
            new = [token]

    def _keep(self, prompt: list[int]) -> int:
        """Returns how many tokens of a prompt have been read; the last one's logits are needed again."""
        pairs = zip(prompt[:-1], self._text, strict=False)
        kept = next(
            (at for at, (token, own) in enumerate(pairs) if token != own), min(len(prompt) - 1, len(self._text))
        )
        del self._text[kept:]
        return kept

    def _read(self, tokens: list[int]) -> OutputHandle:
        """Runs the programs on the next tokens of the text, and returns the logits of the one after them."""
        logits: OutputHandle | None = None
        for executable, size in self._parts:
            while len(tokens) >= size:
                inputs = {TOKENS: np.array([tokens[:size]], np.int32), LENGTH: np.int32(len(self._text))}
                logits = executable.step(inputs, {})[LOGITS]
                self._text += tokens[:size]
                tokens = tokens[size:]
        assert logits is not None
        return logits
