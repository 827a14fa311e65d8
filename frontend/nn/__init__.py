"""Neural networks: modules, the parameters that they declare, and layers."""

from tensorgrad.nn.activations import (
    ELU,
    GELU,
    SELU,
    Hardsigmoid,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from tensorgrad.nn.attention import (
    MultiHeadAttention,
    merge_heads,
    rotary_embedding,
    scaled_dot_product_attention,
    split_heads,
)
from tensorgrad.nn.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tensorgrad.nn.layers import MLP, Dropout, Embedding, Flatten, Identity, Linear, Sequential
from tensorgrad.nn.module import Module, inference
from tensorgrad.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, LayerNorm, RMSNorm
from tensorgrad.nn.parameters import Buffer, Parameter, buffer, param
from tensorgrad.nn.pooling import (
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from tensorgrad.nn.pytorch import from_torch, to_torch
from tensorgrad.nn.recurrent import GRU, LSTM, RNN
from tensorgrad.surface.calls import publish

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "MLP",
    "RNN",
    "SELU",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Buffer",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GroupNorm",
    "Hardsigmoid",
    "Hardtanh",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Mish",
    "Module",
    "MultiHeadAttention",
    "PReLU",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "buffer",
    "from_torch",
    "inference",
    "merge_heads",
    "param",
    "rotary_embedding",
    "scaled_dot_product_attention",
    "split_heads",
    "to_torch",
]

publish(globals())
