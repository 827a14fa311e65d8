"""Models of torchvision, timm and transformers with random weights, small enough for a night's run; and plain ones."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

os.environ["HF_HUB_OFFLINE"] = "1"


@dataclass(frozen=True)
class Example:
    """A model with arguments for one call."""

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


Builder = Callable[[], Example]
BUILDERS: dict[str, Builder] = {}
"""The models, by name; what they need is imported when they are built."""


def enter(name: str) -> Callable[[Builder], Builder]:
    """Registers a builder."""

    def register(builder: Builder) -> Builder:
        BUILDERS[name] = builder
        return builder

    return register


def library(name: str) -> Any:
    """Returns a module of a library; with torchvision's operators declared where its binary part can't be loaded.

    That is so if it was built for another PyTorch than the one installed; models don't need these operators.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for operator in ("nms", "qnms"):
            torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float iou_threshold) -> Tensor")
    return importlib.import_module(name)


# torchvision


def _images(count: int, size: int) -> torch.Tensor:
    return torch.randn(count, 3, size, size)


def _vision(name: str, size: int) -> None:
    @enter(name)
    def build() -> Example:
        return Example(getattr(library("torchvision.models"), name)(weights=None), (_images(2, size),))


for name, size in {
    "resnet18": 64,
    "efficientnet_b0": 64,
    "convnext_tiny": 32,
    "densenet121": 64,
    "shufflenet_v2_x1_0": 64,
    "squeezenet1_1": 64,
    "regnet_y_400mf": 64,
    "vgg11_bn": 32,
    "mobilenet_v3_small": 64,
    "mnasnet0_5": 64,
    "swin_t": 64,
}.items():
    _vision(name, size)


def _segmentation(name: str) -> None:
    @enter(name)
    def build() -> Example:
        model = getattr(library("torchvision.models.segmentation"), name)(
            weights=None, weights_backbone=None, num_classes=5
        )
        return Example(model, (_images(2, 32),))


for name in ("deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large"):
    _segmentation(name)


class Detector(nn.Module):
    """RetinaNet without its search for boxes: a pyramid of features, with scores and offsets at each of its levels."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, images: torch.Tensor) -> Any:
        return self.head(list(self.backbone(images).values()))


@enter("retinanet_resnet18_fpn")
def _detection() -> Example:
    detection = library("torchvision.models.detection")
    backbone = detection.backbone_utils.resnet_fpn_backbone(
        backbone_name="resnet18", weights=None, norm_layer=nn.BatchNorm2d, trainable_layers=5
    )
    head = detection.retinanet.RetinaNetHead(backbone.out_channels, num_anchors=3, num_classes=4)
    return Example(Detector(backbone, head), (_images(2, 64),))


@enter("ssdlite_mobilenet_v3_large")
def _mobile_detection() -> Example:
    models = library("torchvision.models")
    network = models.mobilenet_v3_large(weights=None, reduced_tail=True)
    ssdlite = importlib.import_module("torchvision.models.detection.ssdlite")
    backbone = ssdlite._mobilenet_extractor(network, 6, nn.BatchNorm2d)
    head = ssdlite.SSDLiteHead([672, 480, 512, 256, 256, 128], [6] * 6, 4, nn.BatchNorm2d)
    return Example(Detector(backbone, head), (_images(2, 96),))


@enter("r3d_18")
def _video() -> Example:
    return Example(library("torchvision.models.video").r3d_18(weights=None), (torch.randn(1, 3, 4, 32, 32),))


# timm


def _timm(name: str, size: int) -> None:
    @enter(f"timm_{name}")
    def build() -> Example:
        return Example(library("timm").create_model(name, pretrained=False, num_classes=10), (_images(2, size),))


for name, size in {
    "mixer_s16_224": 224,
    "resnetv2_50": 64,
    "deit_tiny_patch16_224": 224,
    "ghostnet_100": 64,
    "convmixer_768_32": 32,
    "eva02_tiny_patch14_224": 224,
    "efficientvit_b0": 64,
    "mobilenetv4_conv_small": 64,
    "repvgg_a0": 64,
}.items():
    _timm(name, size)


# transformers

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def _tokens(length: int = 9) -> torch.Tensor:
    return torch.randint(0, 99, (2, length))


def _text(name: str, config: str, model: str, /, **options: Any) -> None:
    _model(name, config, model, lambda: {"input_ids": _tokens()}, **options)


def _model(name: str, config: str, model: str, inputs: Callable[[], dict[str, Any]], /, **options: Any) -> None:
    @enter(name)
    def build() -> Example:
        transformers = library("transformers")
        settings = getattr(transformers, config)(**options)
        return Example(getattr(transformers, model)(settings), kwargs=inputs())


_gpt2 = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "use_cache": False}
_text("gpt2", "GPT2Config", "GPT2LMHeadModel", bos_token_id=0, eos_token_id=0, **_gpt2)
for kind, more in {
    "Llama": {},
    "Qwen2": {},
    "Qwen3": {"head_dim": 8},
    "Gemma": {"head_dim": 8},
    "Gemma2": {"head_dim": 8},
    "Mistral": {},
    "Mixtral": {"num_local_experts": 4},
    "Phi3": {"pad_token_id": 0},
    "Olmo": {},
}.items():
    options = {**SMALL, "num_key_value_heads": 2, "use_cache": False, **more}
    _text(kind.lower(), f"{kind}Config", f"{kind}ForCausalLM", **options)
_text("bert", "BertConfig", "BertForSequenceClassification", **SMALL)
_text("roberta", "RobertaConfig", "RobertaModel", **SMALL)
_distilled = {"vocab_size": 100, "dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}
_text("distilbert", "DistilBertConfig", "DistilBertForMaskedLM", **_distilled)
_text(
    "mamba",
    "MambaConfig",
    "MambaForCausalLM",
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    state_size=4,
    use_cache=False,
)
_model(
    "t5",
    "T5Config",
    "T5ForConditionalGeneration",
    lambda: {"input_ids": _tokens(), "decoder_input_ids": _tokens(5)},
    vocab_size=100,
    d_model=32,
    d_kv=8,
    d_ff=64,
    num_layers=2,
    num_heads=4,
    use_cache=False,
)
_model(
    "whisper",
    "WhisperConfig",
    "WhisperForConditionalGeneration",
    lambda: {"input_features": torch.randn(1, 16, 64), "decoder_input_ids": _tokens(5)[:1]},
    vocab_size=100,
    num_mel_bins=16,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    d_model=32,
    max_source_positions=32,
    max_target_positions=32,
    use_cache=False,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)
_model(
    "clip",
    "CLIPConfig",
    "CLIPModel",
    lambda: {"input_ids": _tokens(7), "pixel_values": _images(2, 32)},
    text_config={**SMALL, "max_position_embeddings": 16, "eos_token_id": 99},
    vision_config={**SMALL, "image_size": 32, "patch_size": 8},
    projection_dim=16,
)
_model(
    "wav2vec2",
    "Wav2Vec2Config",
    "Wav2Vec2ForCTC",
    lambda: {"input_values": torch.randn(1, 2000)},
    **{**SMALL, "vocab_size": 20},
    conv_dim=(16, 16, 16),
    conv_stride=(5, 2, 2),
    conv_kernel=(10, 3, 3),
    num_feat_extract_layers=3,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
)
_model(
    "segformer",
    "SegformerConfig",
    "SegformerForSemanticSegmentation",
    lambda: {"pixel_values": _images(1, 64)},
    hidden_sizes=[8, 16, 16, 32],
    depths=[1, 1, 1, 1],
    decoder_hidden_size=16,
    num_labels=5,
)
_model(
    "vit",
    "ViTConfig",
    "ViTForImageClassification",
    lambda: {"pixel_values": _images(2, 32)},
    image_size=32,
    patch_size=8,
    **SMALL,
)


# Plain PyTorch


class UNet(nn.Module):
    """Convolutions down and up, with a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep, self.last = self.block(3, 8), self.block(8, 16), self.block(16, 8)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.head = nn.Conv2d(8, 2, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down(x)
        deep = self.up(self.deep(F.max_pool2d(first, 2)))
        return self.head(self.last(torch.cat([deep, first], 1)))


class Recurrent(nn.Module):
    """A language model of two LSTM layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.layers = nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 100)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(tokens))[0])


class Graph(nn.Module):
    """Two graph convolutions over a list of edges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.convolve(F.relu(self.convolve(x, edges, self.first)), edges, self.second)

    @staticmethod
    def convolve(x: torch.Tensor, edges: torch.Tensor, layer: nn.Module) -> torch.Tensor:
        messages = layer(x)
        total = torch.zeros_like(messages)
        degree = torch.zeros(x.shape[0], dtype=x.dtype).index_add(
            0, edges[1], torch.ones(edges.shape[1], dtype=x.dtype)
        )
        total.index_add_(0, edges[1], messages[edges[0]])
        return total / degree.clamp(min=1)[:, None]


@enter("unet")
def _unet() -> Example:
    return Example(UNet(), (_images(2, 16),))


@enter("lstm")
def _lstm() -> Example:
    return Example(Recurrent(), (_tokens(12),))


@enter("graph")
def _graph() -> Example:
    return Example(Graph(), (torch.randn(6, 4), torch.randint(0, 6, (2, 14))))


def without_dropout(module: nn.Module) -> nn.Module:
    """Returns a module whose layers drop nothing, so that its training form computes the same every time."""
    settings = getattr(module, "config", None)
    for part in [*module.modules(), settings]:
        for name, value in list(vars(part).items()) if part is not None else ():
            if isinstance(value, float) and ("drop" in name or (name == "p" and "rop" in type(part).__name__)):
                setattr(part, name, 0.0)
        if "Depth" in type(part).__name__:
            vars(part)["p"] = 0.0
    if settings is not None:
        settings.apply_spec_augment = False
    return module
