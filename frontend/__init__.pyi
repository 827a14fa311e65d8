"""The public names of tensorgrad, each listed once: type checkers read them here, and `__init__.py` loads from here.

A line `from tensorgrad.module import name as name` makes `tg.name`. Methods of tensors are listed in `methods.pyi`.
A line `other = name`, at the end, makes `tg.other` the same function, under another library's name.
"""

from tensorgrad import array_api as array_api
from tensorgrad import callbacks as callbacks
from tensorgrad import data as data
from tensorgrad import distributed as distributed
from tensorgrad import errors as errors
from tensorgrad import fft as fft
from tensorgrad import initializers as initializers
from tensorgrad import linalg as linalg
from tensorgrad import models as models
from tensorgrad import nn as nn
from tensorgrad import onnx as onnx
from tensorgrad import optim as optim
from tensorgrad import random as random
from tensorgrad import testing as testing
from tensorgrad.driver.compile import compile as compile
from tensorgrad.driver.device import DeviceName as DeviceName
from tensorgrad.driver.device import devices as devices
from tensorgrad.driver.handles.compiled import Inference as Inference
from tensorgrad.driver.handles.eager_devices import tensor as tensor
from tensorgrad.driver.handles.generators import save_generator as save_generator
from tensorgrad.driver.handles.jit import Jitted as Jitted
from tensorgrad.driver.handles.jit import jit as jit
from tensorgrad.driver.handles.load import load as load
from tensorgrad.driver.handles.training import Training as Training
from tensorgrad.driver.stepping.nested_inputs import like as like
from tensorgrad.importers.jax import from_jax as from_jax
from tensorgrad.importers.stablehlo import from_stablehlo as from_stablehlo
from tensorgrad.importers.torch import from_torch as from_torch
from tensorgrad.ops.activations import celu as celu
from tensorgrad.ops.activations import elu as elu
from tensorgrad.ops.activations import gelu as gelu
from tensorgrad.ops.activations import glu as glu
from tensorgrad.ops.activations import gumbel_softmax as gumbel_softmax
from tensorgrad.ops.activations import hard_shrink as hard_shrink
from tensorgrad.ops.activations import hard_sigmoid as hard_sigmoid
from tensorgrad.ops.activations import hard_swish as hard_swish
from tensorgrad.ops.activations import hard_tanh as hard_tanh
from tensorgrad.ops.activations import leaky_relu as leaky_relu
from tensorgrad.ops.activations import log_sigmoid as log_sigmoid
from tensorgrad.ops.activations import mish as mish
from tensorgrad.ops.activations import relu6 as relu6
from tensorgrad.ops.activations import selu as selu
from tensorgrad.ops.activations import silu as silu
from tensorgrad.ops.activations import soft_shrink as soft_shrink
from tensorgrad.ops.activations import softplus as softplus
from tensorgrad.ops.activations import softsign as softsign
from tensorgrad.ops.activations import tanh_shrink as tanh_shrink
from tensorgrad.ops.alignments import ctc as ctc
from tensorgrad.ops.collective import all_gather as all_gather
from tensorgrad.ops.collective import all_reduce as all_reduce
from tensorgrad.ops.collective import broadcast_from as broadcast_from
from tensorgrad.ops.collective import reduce_scatter as reduce_scatter
from tensorgrad.ops.columns import col2im as col2im
from tensorgrad.ops.columns import im2col as im2col
from tensorgrad.ops.columns import unfold as unfold
from tensorgrad.ops.contract import einsum as einsum
from tensorgrad.ops.contract import outer as outer
from tensorgrad.ops.contract import tensordot as tensordot
from tensorgrad.ops.convolution import conv as conv
from tensorgrad.ops.convolution import conv1d as conv1d
from tensorgrad.ops.convolution import conv2d as conv2d
from tensorgrad.ops.convolution import conv3d as conv3d
from tensorgrad.ops.convolution import conv_transpose as conv_transpose
from tensorgrad.ops.creation import arange as arange
from tensorgrad.ops.creation import array as array
from tensorgrad.ops.creation import empty as empty
from tensorgrad.ops.creation import empty_like as empty_like
from tensorgrad.ops.creation import from_dlpack as from_dlpack
from tensorgrad.ops.creation import full as full
from tensorgrad.ops.creation import full_like as full_like
from tensorgrad.ops.creation import ones as ones
from tensorgrad.ops.creation import ones_like as ones_like
from tensorgrad.ops.creation import zeros as zeros
from tensorgrad.ops.creation import zeros_like as zeros_like
from tensorgrad.ops.cumulative import cummax as cummax
from tensorgrad.ops.cumulative import cummin as cummin
from tensorgrad.ops.cumulative import cumprod as cumprod
from tensorgrad.ops.cumulative import cumsum as cumsum
from tensorgrad.ops.cumulative import diff as diff
from tensorgrad.ops.cumulative import logcumsumexp as logcumsumexp
from tensorgrad.ops.elementwise.arithmetic import abs as abs
from tensorgrad.ops.elementwise.arithmetic import add as add
from tensorgrad.ops.elementwise.arithmetic import astype as astype
from tensorgrad.ops.elementwise.arithmetic import clamp as clamp
from tensorgrad.ops.elementwise.arithmetic import clip as clip
from tensorgrad.ops.elementwise.arithmetic import copysign as copysign
from tensorgrad.ops.elementwise.arithmetic import divide as divide
from tensorgrad.ops.elementwise.arithmetic import equal as equal
from tensorgrad.ops.elementwise.arithmetic import floor_divide as floor_divide
from tensorgrad.ops.elementwise.arithmetic import greater as greater
from tensorgrad.ops.elementwise.arithmetic import greater_equal as greater_equal
from tensorgrad.ops.elementwise.arithmetic import lerp as lerp
from tensorgrad.ops.elementwise.arithmetic import less as less
from tensorgrad.ops.elementwise.arithmetic import less_equal as less_equal
from tensorgrad.ops.elementwise.arithmetic import logical_and as logical_and
from tensorgrad.ops.elementwise.arithmetic import logical_not as logical_not
from tensorgrad.ops.elementwise.arithmetic import logical_or as logical_or
from tensorgrad.ops.elementwise.arithmetic import logical_xor as logical_xor
from tensorgrad.ops.elementwise.arithmetic import masked_fill as masked_fill
from tensorgrad.ops.elementwise.arithmetic import maximum as maximum
from tensorgrad.ops.elementwise.arithmetic import minimum as minimum
from tensorgrad.ops.elementwise.arithmetic import multiply as multiply
from tensorgrad.ops.elementwise.arithmetic import negative as negative
from tensorgrad.ops.elementwise.arithmetic import not_equal as not_equal
from tensorgrad.ops.elementwise.arithmetic import power as power
from tensorgrad.ops.elementwise.arithmetic import remainder as remainder
from tensorgrad.ops.elementwise.arithmetic import sign as sign
from tensorgrad.ops.elementwise.arithmetic import square as square
from tensorgrad.ops.elementwise.arithmetic import stop_gradient as stop_gradient
from tensorgrad.ops.elementwise.arithmetic import subtract as subtract
from tensorgrad.ops.elementwise.arithmetic import where as where
from tensorgrad.ops.elementwise.bits import bitwise_and as bitwise_and
from tensorgrad.ops.elementwise.bits import bitwise_invert as bitwise_invert
from tensorgrad.ops.elementwise.bits import bitwise_left_shift as bitwise_left_shift
from tensorgrad.ops.elementwise.bits import bitwise_or as bitwise_or
from tensorgrad.ops.elementwise.bits import bitwise_right_shift as bitwise_right_shift
from tensorgrad.ops.elementwise.bits import bitwise_xor as bitwise_xor
from tensorgrad.ops.elementwise.composed import deg2rad as deg2rad
from tensorgrad.ops.elementwise.composed import fmax as fmax
from tensorgrad.ops.elementwise.composed import fmin as fmin
from tensorgrad.ops.elementwise.composed import fmod as fmod
from tensorgrad.ops.elementwise.composed import heaviside as heaviside
from tensorgrad.ops.elementwise.composed import hypot as hypot
from tensorgrad.ops.elementwise.composed import isclose as isclose
from tensorgrad.ops.elementwise.composed import log10 as log10
from tensorgrad.ops.elementwise.composed import logaddexp as logaddexp
from tensorgrad.ops.elementwise.composed import logit as logit
from tensorgrad.ops.elementwise.composed import nan_to_num as nan_to_num
from tensorgrad.ops.elementwise.composed import nextafter as nextafter
from tensorgrad.ops.elementwise.composed import rad2deg as rad2deg
from tensorgrad.ops.elementwise.composed import signbit as signbit
from tensorgrad.ops.elementwise.composed import sinc as sinc
from tensorgrad.ops.elementwise.composed import xlogy as xlogy
from tensorgrad.ops.elementwise.functions import acos as acos
from tensorgrad.ops.elementwise.functions import acosh as acosh
from tensorgrad.ops.elementwise.functions import asin as asin
from tensorgrad.ops.elementwise.functions import asinh as asinh
from tensorgrad.ops.elementwise.functions import atan as atan
from tensorgrad.ops.elementwise.functions import atan2 as atan2
from tensorgrad.ops.elementwise.functions import atanh as atanh
from tensorgrad.ops.elementwise.functions import ceil as ceil
from tensorgrad.ops.elementwise.functions import cos as cos
from tensorgrad.ops.elementwise.functions import cosh as cosh
from tensorgrad.ops.elementwise.functions import digamma as digamma
from tensorgrad.ops.elementwise.functions import erf as erf
from tensorgrad.ops.elementwise.functions import erfc as erfc
from tensorgrad.ops.elementwise.functions import exp as exp
from tensorgrad.ops.elementwise.functions import exp2 as exp2
from tensorgrad.ops.elementwise.functions import expm1 as expm1
from tensorgrad.ops.elementwise.functions import floor as floor
from tensorgrad.ops.elementwise.functions import isfinite as isfinite
from tensorgrad.ops.elementwise.functions import isinf as isinf
from tensorgrad.ops.elementwise.functions import isnan as isnan
from tensorgrad.ops.elementwise.functions import lgamma as lgamma
from tensorgrad.ops.elementwise.functions import log as log
from tensorgrad.ops.elementwise.functions import log1p as log1p
from tensorgrad.ops.elementwise.functions import log2 as log2
from tensorgrad.ops.elementwise.functions import polygamma as polygamma
from tensorgrad.ops.elementwise.functions import reciprocal as reciprocal
from tensorgrad.ops.elementwise.functions import relu as relu
from tensorgrad.ops.elementwise.functions import round as round
from tensorgrad.ops.elementwise.functions import rsqrt as rsqrt
from tensorgrad.ops.elementwise.functions import sigmoid as sigmoid
from tensorgrad.ops.elementwise.functions import sin as sin
from tensorgrad.ops.elementwise.functions import sinh as sinh
from tensorgrad.ops.elementwise.functions import sqrt as sqrt
from tensorgrad.ops.elementwise.functions import tan as tan
from tensorgrad.ops.elementwise.functions import tanh as tanh
from tensorgrad.ops.elementwise.functions import trunc as trunc
from tensorgrad.ops.grid_sampling import grid_sample as grid_sample
from tensorgrad.ops.index import embedding as embedding
from tensorgrad.ops.index import gather as gather
from tensorgrad.ops.index import masked_select as masked_select
from tensorgrad.ops.index import nonzero as nonzero
from tensorgrad.ops.index import one_hot as one_hot
from tensorgrad.ops.index import scatter_add as scatter_add
from tensorgrad.ops.joining import chunk as chunk
from tensorgrad.ops.joining import concat as concat
from tensorgrad.ops.joining import diagonal as diagonal
from tensorgrad.ops.joining import eye as eye
from tensorgrad.ops.joining import linspace as linspace
from tensorgrad.ops.joining import meshgrid as meshgrid
from tensorgrad.ops.joining import moveaxis as moveaxis
from tensorgrad.ops.joining import narrow as narrow
from tensorgrad.ops.joining import pad as pad
from tensorgrad.ops.joining import permute as permute
from tensorgrad.ops.joining import repeat as repeat
from tensorgrad.ops.joining import roll as roll
from tensorgrad.ops.joining import split as split
from tensorgrad.ops.joining import stack as stack
from tensorgrad.ops.joining import tile as tile
from tensorgrad.ops.joining import tril as tril
from tensorgrad.ops.joining import triu as triu
from tensorgrad.ops.losses import binary_cross_entropy as binary_cross_entropy
from tensorgrad.ops.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from tensorgrad.ops.losses import cross_entropy as cross_entropy
from tensorgrad.ops.losses import nll as nll
from tensorgrad.ops.margins import cosine_embedding as cosine_embedding
from tensorgrad.ops.margins import hinge as hinge
from tensorgrad.ops.margins import hinge_embedding as hinge_embedding
from tensorgrad.ops.margins import margin_ranking as margin_ranking
from tensorgrad.ops.margins import multi_margin as multi_margin
from tensorgrad.ops.margins import multilabel_soft_margin as multilabel_soft_margin
from tensorgrad.ops.margins import soft_margin as soft_margin
from tensorgrad.ops.margins import triplet_margin as triplet_margin
from tensorgrad.ops.normalization import group_norm as group_norm
from tensorgrad.ops.normalization import layer_norm as layer_norm
from tensorgrad.ops.normalization import local_response_norm as local_response_norm
from tensorgrad.ops.normalization import normalize as normalize
from tensorgrad.ops.normalization import rms_norm as rms_norm
from tensorgrad.ops.pooling import adaptive_avg_pool as adaptive_avg_pool
from tensorgrad.ops.pooling import adaptive_max_pool as adaptive_max_pool
from tensorgrad.ops.pooling import avg_pool as avg_pool
from tensorgrad.ops.pooling import global_avg_pool as global_avg_pool
from tensorgrad.ops.pooling import global_max_pool as global_max_pool
from tensorgrad.ops.pooling import max_pool as max_pool
from tensorgrad.ops.pooling import max_unpool as max_unpool
from tensorgrad.ops.products import cdist as cdist
from tensorgrad.ops.products import cross as cross
from tensorgrad.ops.products import kron as kron
from tensorgrad.ops.promotion import bitcast as bitcast
from tensorgrad.ops.promotion import cast as cast
from tensorgrad.ops.pytrees import ravel_pytree as ravel_pytree
from tensorgrad.ops.quantization import dequantize as dequantize
from tensorgrad.ops.rearranging import array_split as array_split
from tensorgrad.ops.rearranging import channel_shuffle as channel_shuffle
from tensorgrad.ops.rearranging import diag as diag
from tensorgrad.ops.rearranging import diag_embed as diag_embed
from tensorgrad.ops.rearranging import flatten as flatten
from tensorgrad.ops.rearranging import hstack as hstack
from tensorgrad.ops.rearranging import pixel_shuffle as pixel_shuffle
from tensorgrad.ops.rearranging import pixel_unshuffle as pixel_unshuffle
from tensorgrad.ops.rearranging import rot90 as rot90
from tensorgrad.ops.rearranging import unbind as unbind
from tensorgrad.ops.rearranging import unflatten as unflatten
from tensorgrad.ops.rearranging import vstack as vstack
from tensorgrad.ops.reduce import all as all
from tensorgrad.ops.reduce import amax as amax
from tensorgrad.ops.reduce import amin as amin
from tensorgrad.ops.reduce import any as any
from tensorgrad.ops.reduce import argmax as argmax
from tensorgrad.ops.reduce import argmin as argmin
from tensorgrad.ops.reduce import causal_mask as causal_mask
from tensorgrad.ops.reduce import log_softmax as log_softmax
from tensorgrad.ops.reduce import logsumexp as logsumexp
from tensorgrad.ops.reduce import matmul as matmul
from tensorgrad.ops.reduce import max as max
from tensorgrad.ops.reduce import mean as mean
from tensorgrad.ops.reduce import min as min
from tensorgrad.ops.reduce import norm as norm
from tensorgrad.ops.reduce import prod as prod
from tensorgrad.ops.reduce import softmax as softmax
from tensorgrad.ops.reduce import std as std
from tensorgrad.ops.reduce import sum as sum
from tensorgrad.ops.reduce import var as var
from tensorgrad.ops.regression_losses import cosine_similarity as cosine_similarity
from tensorgrad.ops.regression_losses import gaussian_nll as gaussian_nll
from tensorgrad.ops.regression_losses import huber as huber
from tensorgrad.ops.regression_losses import kl_div as kl_div
from tensorgrad.ops.regression_losses import l1 as l1
from tensorgrad.ops.regression_losses import mse as mse
from tensorgrad.ops.regression_losses import poisson_nll as poisson_nll
from tensorgrad.ops.resizing import resize as resize
from tensorgrad.ops.scatter import scatter as scatter
from tensorgrad.ops.scatter import scatter_reduce as scatter_reduce
from tensorgrad.ops.scatter import segment_max as segment_max
from tensorgrad.ops.scatter import segment_mean as segment_mean
from tensorgrad.ops.scatter import segment_min as segment_min
from tensorgrad.ops.scatter import segment_prod as segment_prod
from tensorgrad.ops.scatter import segment_sum as segment_sum
from tensorgrad.ops.searching import count_nonzero as count_nonzero
from tensorgrad.ops.searching import isin as isin
from tensorgrad.ops.searching import searchsorted as searchsorted
from tensorgrad.ops.shape import atleast_1d as atleast_1d
from tensorgrad.ops.shape import atleast_2d as atleast_2d
from tensorgrad.ops.shape import atleast_3d as atleast_3d
from tensorgrad.ops.shape import broadcast_to as broadcast_to
from tensorgrad.ops.shape import expand as expand
from tensorgrad.ops.shape import expand_dims as expand_dims
from tensorgrad.ops.shape import flip as flip
from tensorgrad.ops.shape import numel as numel
from tensorgrad.ops.shape import reshape as reshape
from tensorgrad.ops.shape import squeeze as squeeze
from tensorgrad.ops.shape import swapaxes as swapaxes
from tensorgrad.ops.shape import take as take
from tensorgrad.ops.shape import take_along_axis as take_along_axis
from tensorgrad.ops.shape import transpose as transpose
from tensorgrad.ops.shape import unsqueeze as unsqueeze
from tensorgrad.ops.sort import argsort as argsort
from tensorgrad.ops.sort import sort as sort
from tensorgrad.ops.sort import top_k as top_k
from tensorgrad.ops.statistics import allclose as allclose
from tensorgrad.ops.statistics import bincount as bincount
from tensorgrad.ops.statistics import corrcoef as corrcoef
from tensorgrad.ops.statistics import cov as cov
from tensorgrad.ops.statistics import histogram as histogram
from tensorgrad.ops.statistics import median as median
from tensorgrad.ops.statistics import nanmean as nanmean
from tensorgrad.ops.statistics import nansum as nansum
from tensorgrad.ops.statistics import quantile as quantile
from tensorgrad.random import erfinv as erfinv
from tensorgrad.runtime.generator import LoadedGenerator as LoadedGenerator
from tensorgrad.runtime.loaded import LoadedFunction as LoadedFunction
from tensorgrad.runtime.loaded import LoadedTraining as LoadedTraining
from tensorgrad.tracing.capturing import capture as capture
from tensorgrad.tracing.dims import dim as dim
from tensorgrad.tracing.dtypes import bf16 as bf16
from tensorgrad.tracing.dtypes import bool_ as bool_
from tensorgrad.tracing.dtypes import f16 as f16
from tensorgrad.tracing.dtypes import f32 as f32
from tensorgrad.tracing.dtypes import f64 as f64
from tensorgrad.tracing.dtypes import i8 as i8
from tensorgrad.tracing.dtypes import i16 as i16
from tensorgrad.tracing.dtypes import i32 as i32
from tensorgrad.tracing.dtypes import i64 as i64
from tensorgrad.tracing.dtypes import spec as spec
from tensorgrad.tracing.dtypes import u8 as u8
from tensorgrad.tracing.dtypes import u16 as u16
from tensorgrad.tracing.dtypes import u32 as u32
from tensorgrad.tracing.dtypes import u64 as u64
from tensorgrad.tracing.grad_mode import enable_grad as enable_grad
from tensorgrad.tracing.grad_mode import is_grad_enabled as is_grad_enabled
from tensorgrad.tracing.grad_mode import no_grad as no_grad
from tensorgrad.tracing.tensor import Array as Array
from tensorgrad.tracing.tensor import Tensor as Tensor
from tensorgrad.tracing.tracer import trace as trace
from tensorgrad.tracing.trees import tree_map as tree_map
from tensorgrad.train.fit import fit as fit
from tensorgrad.train.run import Report as Report
from tensorgrad.transforms.checkpoint import checkpoint as checkpoint
from tensorgrad.transforms.control import cond as cond
from tensorgrad.transforms.control import fori_loop as fori_loop
from tensorgrad.transforms.control import scan as scan
from tensorgrad.transforms.control import while_loop as while_loop
from tensorgrad.transforms.custom_vjp import custom_vjp as custom_vjp
from tensorgrad.transforms.grad import grad as grad
from tensorgrad.transforms.grad import value_and_grad as value_and_grad
from tensorgrad.transforms.jacobian import hessian as hessian
from tensorgrad.transforms.jacobian import jacobian as jacobian
from tensorgrad.transforms.jacobian import jvp as jvp
from tensorgrad.transforms.jacobian import vjp as vjp
from tensorgrad.transforms.vmap import vmap as vmap

__version__: str

# Names that NumPy, JAX or PyTorch have for these functions.
absolute = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
bitwise_not = bitwise_invert
bmm = matmul
cat = concat
concatenate = concat
degrees = rad2deg
div = divide
eq = equal
fabs = abs
ge = greater_equal
gt = greater
invert = bitwise_invert
l1_loss = l1
le = less_equal
left_shift = bitwise_left_shift
lt = less
mm = matmul
mod = remainder
movedim = moveaxis
mse_loss = mse
mul = multiply
ne = not_equal
neg = negative
nll_loss = nll
permute_dims = permute
pow = power
radians = deg2rad
ravel = flatten
repeat_interleave = repeat
right_shift = bitwise_right_shift
rint = round
sub = subtract
swish = silu
topk = top_k
true_divide = divide
