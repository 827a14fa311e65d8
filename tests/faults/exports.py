"""Files for other programs, written over older ones: ONNX, folders of models and of adapters, GGUF."""

from __future__ import annotations

from pathlib import Path

from operations import Written

import tensorgrad as tg


class Export(Written):
    """Writes other values for each step that the training has done.

    NumPy allocates up to 4,750 arrays in it, most of them to draw weights: `sweeps.py` strikes them all.
    """

    devices = ("numpy",)
    sample = 4
    most = 1000

    @property
    def step(self) -> int:
        return self.reference.training.step_count


class OnnxFile(Export):
    """A training step in two files."""

    suffix = ".onnx"

    def write(self, path: Path) -> None:
        tg.onnx.save(self.reference.training, path, external=True)


def language_model() -> tg.models.LlamaForCausalLM:
    options = tg.models.LlamaOptions(
        vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2
    )
    return tg.models.LlamaForCausalLM(options)


class ModelFolder(Export):
    """Settings, several files of weights, and their index."""

    suffix = ""

    def write(self, path: Path) -> None:
        tg.models.save_pretrained(language_model().initialized(self.step), path, max_shard_bytes=1000)


class AdapterFolder(Export):
    suffix = ""

    def write(self, path: Path) -> None:
        model = language_model()
        tg.nn.lora(model, rank=2)
        tg.nn.save_lora(model.initialized(self.step), path)


class GgufFile(Export):
    suffix = ".gguf"

    def write(self, path: Path) -> None:
        tg.models.save_gguf(language_model().initialized(self.step), path)


EXPORTS = {"onnx": OnnxFile, "save_pretrained": ModelFolder, "save_lora": AdapterFolder, "save_gguf": GgufFile}
