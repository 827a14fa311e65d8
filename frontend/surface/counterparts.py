"""Each public name's counterparts in NumPy, PyTorch and JAX, as one table.

The reference shows them beside each entry, the page of names from elsewhere lists them, and hints for names that are
unknown here look for them. A counterpart does the same to the same arrays; the names, the order and the defaults of
arguments may differ. A name that is accepted here is also assigned in a stub, see `tensorgrad.surface.stubs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple


class Counterparts(NamedTuple):
    """The names of a function, a class or a dtype in other libraries; several if they have several."""

    numpy: tuple[str, ...]
    torch: tuple[str, ...]
    jax: tuple[str, ...]


LIBRARIES = ("NumPy", "PyTorch", "JAX")
"""The libraries' names, in the order of the table's columns; JAX's includes optax, its library of optimizers."""

ABBREVIATIONS: Mapping[str, str] = {
    "np": "numpy",
    "F": "torch.nn.functional",
    "nn": "torch.nn",
    "jnp": "jax.numpy",
}
"""How names in the table begin, and the modules that are usually imported so."""

TABLE = """
abs                  np.abs,np.absolute,np.fabs torch.abs,torch.absolute     jnp
acos                 np.acos,np.arccos    torch.acos,torch.arccos      jnp
acosh                np.acosh,np.arccosh  torch.acosh,torch.arccosh    jnp
adaptive_avg_pool    -                    F.adaptive_avg_pool1d,F.adaptive_avg_pool2d,F.adaptive_avg_pool3d -
adaptive_max_pool    -                    F.adaptive_max_pool1d,F.adaptive_max_pool2d,F.adaptive_max_pool3d -
add                  np.add               torch.add                    jnp
all                  np.all               torch.all                    jnp
all_gather           -                    torch.distributed.all_gather jax.lax.all_gather
all_reduce           -                    torch.distributed.all_reduce jax.lax.psum
allclose             np.allclose          torch.allclose               jnp
amax                 np.amax              torch.amax                   jnp.max
amin                 np.amin              torch.amin                   jnp.min
any                  np.any               torch.any                    jnp
arange               np.arange            torch.arange                 jnp
argmax               np.argmax            torch.argmax                 jnp
argmin               np.argmin            torch.argmin                 jnp
argsort              np.argsort           torch.argsort                jnp
array                np.array,np.asarray  torch.as_tensor,torch.asarray jnp
array_split          np.array_split       torch.tensor_split           jnp
asin                 np.asin,np.arcsin    torch.asin,torch.arcsin      jnp
asinh                np.asinh,np.arcsinh  torch.asinh,torch.arcsinh    jnp
astype               np.astype            torch.Tensor.to              jnp
atan                 np.atan,np.arctan    torch.atan,torch.arctan      jnp
atan2                np.atan2,np.arctan2  torch.atan2,torch.arctan2    jnp
atanh                np.atanh,np.arctanh  torch.atanh,torch.arctanh    jnp
atleast_1d           np.atleast_1d        torch.atleast_1d             jnp
atleast_2d           np.atleast_2d        torch.atleast_2d             jnp
atleast_3d           np.atleast_3d        torch.atleast_3d             jnp
avg_pool             -                    F.avg_pool1d,F.avg_pool2d,F.avg_pool3d -
bf16                 -                    torch.bfloat16               jnp.bfloat16
binary_cross_entropy -                    F.binary_cross_entropy,nn.BCELoss -
binary_cross_entropy_with_logits - F.binary_cross_entropy_with_logits,nn.BCEWithLogitsLoss -
bincount             np.bincount          torch.bincount               jnp
bitcast              np.ndarray.view      torch.Tensor.view            jax.lax.bitcast_convert_type
bitwise_and          np.bitwise_and       torch.bitwise_and            jnp
bitwise_invert       np.bitwise_invert,np.bitwise_not,np.invert torch.bitwise_not            jnp
bitwise_left_shift   np.bitwise_left_shift,np.left_shift torch.bitwise_left_shift     jnp
bitwise_or           np.bitwise_or        torch.bitwise_or             jnp
bitwise_right_shift  np.bitwise_right_shift,np.right_shift torch.bitwise_right_shift    jnp
bitwise_xor          np.bitwise_xor       torch.bitwise_xor            jnp
bool_                np.bool_,np.bool     torch.bool                   jnp
broadcast_from       -                    torch.distributed.broadcast  jax.lax.pbroadcast
broadcast_to         np.broadcast_to      torch.broadcast_to           jnp
cast                 np.ndarray.astype    torch.Tensor.to              jax.lax.convert_element_type
cdist                -                    torch.cdist                  -
ceil                 np.ceil              torch.ceil                   jnp
celu                 -                    F.celu                       jax.nn.celu
channel_shuffle      -                    F.channel_shuffle            -
checkpoint           -                    torch.utils.checkpoint.checkpoint jax.checkpoint,jax.remat
chunk                -                    torch.chunk                  -
clamp                np.clip              torch.clamp                  jnp
clip                 np.clip              torch.clip                   jnp
col2im               -                    F.fold                       -
concat               np.concat,np.concatenate torch.cat,torch.concat       jnp
cond                 -                    torch.cond                   jax.lax.cond
conv1d               -                    F.conv1d                     jax.lax.conv_general_dilated
conv2d               -                    F.conv2d                     jax.lax.conv_general_dilated
conv3d               -                    F.conv3d                     jax.lax.conv_general_dilated
conv_transpose - F.conv_transpose1d,F.conv_transpose2d,F.conv_transpose3d jax.lax.conv_transpose
copysign             np.copysign          torch.copysign               jnp
corrcoef             np.corrcoef          torch.corrcoef               jnp
cos                  np.cos               torch.cos                    jnp
cosh                 np.cosh              torch.cosh                   jnp
cosine_embedding     -                    F.cosine_embedding_loss,nn.CosineEmbeddingLoss -
cosine_similarity    -                    F.cosine_similarity,nn.CosineSimilarity optax.cosine_similarity
count_nonzero        np.count_nonzero     torch.count_nonzero          jnp
cov                  np.cov               torch.cov                    jnp
cross                np.cross             torch.cross                  jnp
cross_entropy - F.cross_entropy,nn.CrossEntropyLoss optax.softmax_cross_entropy_with_integer_labels
ctc                  -                    F.ctc_loss,nn.CTCLoss        -
cummax               np.maximum.accumulate torch.cummax                 jax.lax.cummax
cummin               np.minimum.accumulate torch.cummin                 jax.lax.cummin
cumprod              np.cumprod           torch.cumprod                jnp
cumsum               np.cumsum            torch.cumsum                 jnp
custom_vjp           -                    torch.autograd.Function      jax.custom_vjp,jax.custom_gradient
deg2rad              np.deg2rad,np.radians torch.deg2rad                jnp
diag                 np.diag              torch.diag                   jnp
diag_embed           -                    torch.diag_embed             -
diagonal             np.diagonal          torch.diagonal               jnp
diff                 np.diff              torch.diff                   jnp
digamma              -                    torch.digamma,torch.special.psi jax.scipy.special.digamma,jax.lax.digamma
divide               np.divide,np.true_divide torch.div,torch.true_divide  jnp
einsum               np.einsum            torch.einsum                 jnp
elu                  -                    F.elu                        jax.nn.elu
embedding            np.take              F.embedding                  jnp
empty                np.empty             torch.empty                  jnp
empty_like           np.empty_like        torch.empty_like             jnp
enable_grad          -                    torch.enable_grad            -
equal                np.equal             torch.eq                     jnp
erf                  -                    torch.erf,torch.special.erf  jax.scipy.special.erf
erfc                 -                    torch.erfc,torch.special.erfc jax.scipy.special.erfc
erfinv               -                    torch.erfinv,torch.special.erfinv jax.scipy.special.erfinv
exp                  np.exp               torch.exp                    jnp
exp2                 np.exp2              torch.exp2                   jnp
expand               -                    torch.Tensor.expand          -
expand_dims          np.expand_dims       torch.unsqueeze              jnp
expm1                np.expm1             torch.expm1                  jnp
eye                  np.eye               torch.eye                    jnp
f16                  np.float16,np.half   torch.float16,torch.half     jnp.float16
f32                  np.float32           torch.float32,torch.float    jnp
f64                  np.float64,np.double torch.float64,torch.double   jnp.float64
flatten              np.ravel             torch.flatten,torch.ravel    jnp
flip                 np.flip              torch.flip                   jnp
floor                np.floor             torch.floor                  jnp
floor_divide         np.floor_divide      torch.floor_divide           jnp
fmax                 np.fmax              torch.fmax                   jnp
fmin                 np.fmin              torch.fmin                   jnp
fmod                 np.fmod              torch.fmod                   jnp
fori_loop            -                    -                            jax.lax.fori_loop
from_dlpack          np.from_dlpack       torch.from_dlpack            jnp
full                 np.full              torch.full                   jnp
full_like            np.full_like         torch.full_like              jnp
gather               np.take_along_axis   torch.gather                 jnp
gaussian_nll         -                    F.gaussian_nll_loss,nn.GaussianNLLLoss -
gelu                 -                    F.gelu                       jax.nn.gelu
glu                  -                    F.glu                        jax.nn.glu
grad                 -                    torch.func.grad              jax.grad
greater              np.greater           torch.gt,torch.greater       jnp
greater_equal        np.greater_equal     torch.ge,torch.greater_equal jnp
grid_sample          -                    F.grid_sample                -
group_norm           -                    F.group_norm                 -
gumbel_softmax       -                    F.gumbel_softmax             -
hard_sigmoid         -                    F.hardsigmoid                jax.nn.hard_sigmoid
hard_swish           -                    F.hardswish                  jax.nn.hard_swish,jax.nn.hard_silu
hard_tanh            -                    F.hardtanh                   jax.nn.hard_tanh
heaviside            np.heaviside         torch.heaviside              jnp
hessian              -                    torch.func.hessian           jax.hessian
hinge                -                    -                            optax.hinge_loss
hinge_embedding      -                    F.hinge_embedding_loss,nn.HingeEmbeddingLoss -
histogram            np.histogram         torch.histogram              jnp
hstack               np.hstack            torch.hstack                 jnp
huber                -                    F.huber_loss,F.smooth_l1_loss,nn.HuberLoss,nn.SmoothL1Loss optax.huber_loss
hypot                np.hypot             torch.hypot                  jnp
i16                  np.int16             torch.int16,torch.short      jnp
i32                  np.int32             torch.int32,torch.int        jnp
i64                  np.int64             torch.int64,torch.long       jnp
i8                   np.int8              torch.int8                   jnp
im2col               -                    F.unfold                     jax.lax.conv_general_dilated_patches
is_grad_enabled      -                    torch.is_grad_enabled        -
isclose              np.isclose           torch.isclose                jnp
isfinite             np.isfinite          torch.isfinite               jnp
isin                 np.isin              torch.isin                   jnp
isinf                np.isinf             torch.isinf                  jnp
isnan                np.isnan             torch.isnan                  jnp
jacobian             -                    torch.func.jacrev,torch.func.jacfwd jax.jacrev,jax.jacfwd
jit                  -                    torch.compile                jax.jit
jvp                  -                    torch.func.jvp               jax.jvp
kl_div               -                    F.kl_div,nn.KLDivLoss        optax.kl_divergence
kron                 np.kron              torch.kron                   jnp
l1                   -                    F.l1_loss,nn.L1Loss          -
layer_norm           -                    F.layer_norm                 -
leaky_relu           -                    F.leaky_relu                 jax.nn.leaky_relu
lerp                 -                    torch.lerp                   -
less                 np.less              torch.lt,torch.less          jnp
less_equal           np.less_equal        torch.le,torch.less_equal    jnp
lgamma               -                    torch.lgamma,torch.special.gammaln jax.scipy.special.gammaln,jax.lax.lgamma
linspace             np.linspace          torch.linspace               jnp
load                 -                    torch.export.load            jax.export.deserialize
local_response_norm  -                    F.local_response_norm        -
log                  np.log               torch.log                    jnp
log10                np.log10             torch.log10                  jnp
log1p                np.log1p             torch.log1p                  jnp
log2                 np.log2              torch.log2                   jnp
log_sigmoid          -                    F.logsigmoid                 jax.nn.log_sigmoid
log_softmax          -                    F.log_softmax,torch.log_softmax jax.nn.log_softmax
logaddexp            np.logaddexp         torch.logaddexp              jnp
logcumsumexp         np.logaddexp.accumulate torch.logcumsumexp           jax.lax.cumlogsumexp
logical_and          np.logical_and       torch.logical_and            jnp
logical_not          np.logical_not       torch.logical_not            jnp
logical_or           np.logical_or        torch.logical_or             jnp
logical_xor          np.logical_xor       torch.logical_xor            jnp
logit                -                    torch.logit,torch.special.logit jax.scipy.special.logit
logsumexp            -                    torch.logsumexp              jax.nn.logsumexp
margin_ranking       -                    F.margin_ranking_loss,nn.MarginRankingLoss -
masked_fill          -                    torch.masked_fill,torch.Tensor.masked_fill -
masked_select        np.extract           torch.masked_select          jnp
matmul               np.matmul            torch.matmul,torch.mm,torch.bmm jnp
max                  np.max               torch.max                    jnp
max_pool             -                    F.max_pool1d,F.max_pool2d,F.max_pool3d jax.lax.reduce_window
max_unpool           -                    F.max_unpool1d,F.max_unpool2d,F.max_unpool3d -
maximum              np.maximum           torch.maximum                jnp
mean                 np.mean              torch.mean                   jnp
median               np.median            -                            jnp
meshgrid             np.meshgrid          torch.meshgrid               jnp
min                  np.min               torch.min                    jnp
minimum              np.minimum           torch.minimum                jnp
mish                 -                    F.mish                       jax.nn.mish
moveaxis             np.moveaxis          torch.moveaxis,torch.movedim jnp
mse                  -                    F.mse_loss,nn.MSELoss        optax.squared_error
multi_margin         -                    F.multi_margin_loss,nn.MultiMarginLoss -
multilabel_soft_margin -                    F.multilabel_soft_margin_loss,nn.MultiLabelSoftMarginLoss -
multiply             np.multiply          torch.mul,torch.multiply     jnp
nan_to_num           np.nan_to_num        torch.nan_to_num             jnp
nanmean              np.nanmean           torch.nanmean                jnp
nansum               np.nansum            torch.nansum                 jnp
narrow               -                    torch.narrow                 jax.lax.dynamic_slice_in_dim
negative             np.negative          torch.neg,torch.negative     jnp
nextafter            np.nextafter         torch.nextafter              jnp
nll                  -                    F.nll_loss,nn.NLLLoss        -
no_grad              -                    torch.no_grad,torch.inference_mode -
nonzero              np.nonzero           torch.nonzero                jnp
norm                 np.linalg.norm       torch.norm                   jnp
normalize            -                    F.normalize                  -
not_equal            np.not_equal         torch.ne,torch.not_equal     jnp
numel                np.size              torch.numel,torch.Tensor.nelement jnp
one_hot              -                    F.one_hot                    jax.nn.one_hot
ones                 np.ones              torch.ones                   jnp
ones_like            np.ones_like         torch.ones_like              jnp
outer                np.outer             torch.outer                  jnp
pad                  np.pad               -                            jnp
permute              np.permute_dims      torch.permute                jnp
pixel_shuffle        -                    F.pixel_shuffle              -
pixel_unshuffle      -                    F.pixel_unshuffle            -
poisson_nll          -                    F.poisson_nll_loss,nn.PoissonNLLLoss -
polygamma            -                    torch.polygamma jax.scipy.special.polygamma,jax.lax.polygamma
power                np.power,np.pow      torch.pow                    jnp
prod                 np.prod              torch.prod                   jnp
quantile             np.quantile          torch.quantile               jnp
rad2deg              np.rad2deg,np.degrees torch.rad2deg                jnp
ravel_pytree         -                    nn.utils.parameters_to_vector jax.flatten_util.ravel_pytree
reciprocal           np.reciprocal        torch.reciprocal             jnp
reduce_scatter       -                    torch.distributed.reduce_scatter jax.lax.psum_scatter
relu                 -                    F.relu,torch.relu            jax.nn.relu
relu6                -                    F.relu6                      jax.nn.relu6
remainder            np.remainder,np.mod  torch.remainder              jnp
repeat               np.repeat            torch.repeat_interleave      jnp
reshape              np.reshape           torch.reshape,torch.Tensor.view jnp
resize               -                    F.interpolate                jax.image.resize
rms_norm             -                    F.rms_norm                   -
roll                 np.roll              torch.roll                   jnp
rot90                np.rot90             torch.rot90                  jnp
round                np.round,np.rint     torch.round                  jnp
rsqrt                -                    torch.rsqrt                  jax.lax.rsqrt
scan                 -                    -                            jax.lax.scan
scatter              -                    torch.scatter                -
scatter_add          -                    torch.scatter_add            -
scatter_reduce       -                    torch.scatter_reduce         -
searchsorted         np.searchsorted      torch.searchsorted           jnp
segment_max          -                    torch.segment_reduce         jax.ops.segment_max
segment_mean         -                    torch.segment_reduce         -
segment_min          -                    torch.segment_reduce         jax.ops.segment_min
segment_prod         -                    torch.segment_reduce         jax.ops.segment_prod
segment_sum          -                    torch.segment_reduce         jax.ops.segment_sum
selu                 -                    F.selu                       jax.nn.selu
sigmoid              -                    F.sigmoid,torch.sigmoid      jax.nn.sigmoid
sign                 np.sign              torch.sign                   jnp
signbit              np.signbit           torch.signbit                jnp
silu                 -                    F.silu                       jax.nn.silu,jax.nn.swish
sin                  np.sin               torch.sin                    jnp
sinc                 np.sinc              torch.sinc                   jnp
sinh                 np.sinh              torch.sinh                   jnp
soft_margin          -                    F.soft_margin_loss,nn.SoftMarginLoss -
soft_shrink          -                    F.softshrink                 -
softmax              -                    F.softmax,torch.softmax      jax.nn.softmax
softplus             -                    F.softplus                   jax.nn.softplus
softsign             -                    F.softsign                   jax.nn.soft_sign
sort                 np.sort              torch.sort                   jnp
split                np.split             torch.tensor_split           jnp
sqrt                 np.sqrt              torch.sqrt                   jnp
square               np.square            torch.square                 jnp
squeeze              np.squeeze           torch.squeeze                jnp
stack                np.stack             torch.stack                  jnp
std                  np.std               torch.std                    jnp
stop_gradient        -                    torch.Tensor.detach          jax.lax.stop_gradient
subtract             np.subtract          torch.sub,torch.subtract     jnp
sum                  np.sum               torch.sum                    jnp
swapaxes             np.swapaxes          torch.swapaxes,torch.transpose jnp
take                 np.take              torch.index_select           jnp
take_along_axis      np.take_along_axis   torch.take_along_dim         jnp
tan                  np.tan               torch.tan                    jnp
tanh                 np.tanh              torch.tanh                   jnp
tanh_shrink          -                    F.tanhshrink                 -
Tensor               np.ndarray           torch.Tensor                 jax.Array
tensor               -                    torch.tensor                 -
tensordot            np.tensordot         torch.tensordot              jnp
tile                 np.tile              torch.tile                   jnp
top_k                -                    torch.topk                   jax.lax.top_k
trace                -                    torch.fx.symbolic_trace      jax.make_jaxpr
transpose            np.transpose         torch.permute                jnp
tree_map             -                    torch.utils._pytree.tree_map jax.tree.map,jax.tree_util.tree_map
tril                 np.tril              torch.tril                   jnp
triplet_margin       -                    F.triplet_margin_loss,nn.TripletMarginLoss -
triu                 np.triu              torch.triu                   jnp
trunc                np.trunc             torch.trunc                  jnp
u16                  np.uint16            torch.uint16                 jnp
u32                  np.uint32            torch.uint32                 jnp
u64                  np.uint64            torch.uint64                 jnp
u8                   np.uint8             torch.uint8                  jnp
unbind               np.unstack           torch.unbind                 jnp
unflatten            -                    torch.unflatten              -
unfold               np.lib.stride_tricks.sliding_window_view torch.Tensor.unfold          -
unsqueeze            np.expand_dims       torch.unsqueeze              jnp
value_and_grad       -                    torch.func.grad_and_value    jax.value_and_grad
var                  np.var               torch.var                    jnp
vjp                  -                    torch.func.vjp               jax.vjp
vmap                 np.vectorize         torch.vmap,torch.func.vmap   jax.vmap
vstack               np.vstack            torch.vstack                 jnp
where                np.where             torch.where                  jnp
while_loop           -                    torch.while_loop             jax.lax.while_loop
xlogy                -                    torch.xlogy,torch.special.xlogy jax.scipy.special.xlogy
zeros                np.zeros             torch.zeros                  jnp
zeros_like           np.zeros_like        torch.zeros_like             jnp

fft.Complex          -                    torch.complex                jax.lax.complex
fft.fft              np.fft.fft           torch.fft.fft                jnp
fft.fft2             np.fft.fft2          torch.fft.fft2               jnp
fft.fftfreq          np.fft.fftfreq       torch.fft.fftfreq            jnp
fft.fftn             np.fft.fftn          torch.fft.fftn               jnp
fft.fftshift         np.fft.fftshift      torch.fft.fftshift           jnp
fft.hfft             np.fft.hfft         torch.fft.hfft               jnp
fft.ifft             np.fft.ifft          torch.fft.ifft               jnp
fft.ifft2            np.fft.ifft2         torch.fft.ifft2              jnp
fft.ifftn            np.fft.ifftn         torch.fft.ifftn              jnp
fft.ifftshift        np.fft.ifftshift     torch.fft.ifftshift          jnp
fft.ihfft            np.fft.ihfft        torch.fft.ihfft              jnp
fft.irfft            np.fft.irfft         torch.fft.irfft              jnp
fft.irfft2           np.fft.irfft2        torch.fft.irfft2             jnp
fft.irfftn           np.fft.irfftn        torch.fft.irfftn             jnp
fft.istft            -                   torch.istft                  jax.scipy.signal.istft
fft.rfft             np.fft.rfft          torch.fft.rfft               jnp
fft.rfft2            np.fft.rfft2         torch.fft.rfft2              jnp
fft.rfftfreq         np.fft.rfftfreq      torch.fft.rfftfreq           jnp
fft.rfftn            np.fft.rfftn         torch.fft.rfftn              jnp
fft.stft             -                   torch.stft                   jax.scipy.signal.stft

linalg.cholesky      np.linalg.cholesky   torch.linalg.cholesky        jnp
linalg.cross         np.linalg.cross      torch.linalg.cross           jnp
linalg.det           np.linalg.det        torch.linalg.det             jnp
linalg.diagonal      np.linalg.diagonal   torch.linalg.diagonal        jnp
linalg.eigh          np.linalg.eigh       torch.linalg.eigh            jnp
linalg.eigvalsh      np.linalg.eigvalsh   torch.linalg.eigvalsh        jnp
linalg.inv           np.linalg.inv        torch.linalg.inv,torch.inverse jnp
linalg.lu_factor     -                    torch.linalg.lu_factor       jax.scipy.linalg.lu_factor
linalg.matmul        np.linalg.matmul     torch.linalg.matmul          jnp
linalg.matrix_norm   np.linalg.matrix_norm torch.linalg.matrix_norm     jnp
linalg.matrix_power  np.linalg.matrix_power torch.linalg.matrix_power    jnp
linalg.matrix_rank   np.linalg.matrix_rank torch.linalg.matrix_rank     jnp
linalg.matrix_transpose np.linalg.matrix_transpose torch.adjoint                jnp
linalg.outer         np.linalg.outer      torch.outer                  jnp
linalg.pinv          np.linalg.pinv       torch.linalg.pinv,torch.pinverse jnp
linalg.qr            np.linalg.qr         torch.linalg.qr              jnp
linalg.slogdet       np.linalg.slogdet    torch.linalg.slogdet         jnp
linalg.solve         np.linalg.solve      torch.linalg.solve           jnp
linalg.solve_triangular -                 torch.linalg.solve_triangular jax.scipy.linalg.solve_triangular
linalg.svd           np.linalg.svd        torch.linalg.svd             jnp
linalg.svdvals       np.linalg.svdvals    torch.linalg.svdvals         jnp
linalg.tensordot     np.linalg.tensordot  torch.tensordot              jnp
linalg.trace         np.linalg.trace      torch.trace                  jnp
linalg.vecdot        np.linalg.vecdot     torch.linalg.vecdot          jnp
linalg.vector_norm   np.linalg.vector_norm torch.linalg.vector_norm     jnp

onnx.save            -                    torch.onnx.export            -

random.bernoulli     -                    torch.bernoulli              jax.random.bernoulli
random.bits          -                    -                            jax.random.bits
random.categorical   np.random.choice     torch.multinomial            jax.random.categorical
random.dropout       -                    F.dropout                    -
random.fold_in       -                    -                            jax.random.fold_in
random.exponential   np.random.exponential -                    jax.random.exponential
random.gumbel        np.random.gumbel     -                            jax.random.gumbel
random.key           -                    torch.manual_seed            jax.random.key,jax.random.PRNGKey
random.laplace       np.random.laplace    -                            jax.random.laplace
random.normal        np.random.randn      torch.randn,torch.normal     jax.random.normal
random.permutation   np.random.permutation torch.randperm               jax.random.permutation
random.randint       np.random.randint    torch.randint                jax.random.randint
random.split         -                    -                            jax.random.split
random.uniform       np.random.uniform    torch.rand                   jax.random.uniform

nn.AdaptiveAvgPool1d -                    nn.AdaptiveAvgPool1d         -
nn.AdaptiveAvgPool2d -                    nn.AdaptiveAvgPool2d         -
nn.AdaptiveAvgPool3d -                    nn.AdaptiveAvgPool3d         -
nn.AdaptiveMaxPool1d -                    nn.AdaptiveMaxPool1d         -
nn.AdaptiveMaxPool2d -                    nn.AdaptiveMaxPool2d         -
nn.AdaptiveMaxPool3d -                    nn.AdaptiveMaxPool3d         -
nn.AvgPool1d         -                    nn.AvgPool1d                 -
nn.AvgPool2d         -                    nn.AvgPool2d                 -
nn.AvgPool3d         -                    nn.AvgPool3d                 -
nn.BatchNorm1d       -                    nn.BatchNorm1d               -
nn.BatchNorm2d       -                    nn.BatchNorm2d               -
nn.BatchNorm3d       -                    nn.BatchNorm3d               -
nn.Bilinear          -                    nn.Bilinear                  -
nn.Buffer            -                    nn.Buffer                    -
nn.CELU              -                    nn.CELU                      jax.nn.celu
nn.ChannelShuffle    -                    nn.ChannelShuffle            -
nn.CircularPad1d     -                    nn.CircularPad1d             -
nn.CircularPad2d     -                    nn.CircularPad2d             -
nn.CircularPad3d     -                    nn.CircularPad3d             -
nn.ConstantPad1d     -                    nn.ConstantPad1d             -
nn.ConstantPad2d     -                    nn.ConstantPad2d             -
nn.ConstantPad3d     -                    nn.ConstantPad3d             -
nn.Conv1d            -                    nn.Conv1d                    -
nn.Conv2d            -                    nn.Conv2d                    -
nn.Conv3d            -                    nn.Conv3d                    -
nn.ConvTranspose1d   -                    nn.ConvTranspose1d           -
nn.ConvTranspose2d   -                    nn.ConvTranspose2d           -
nn.ConvTranspose3d   -                    nn.ConvTranspose3d           -
nn.Dropout           -                    nn.Dropout                   -
nn.Dropout1d         -                    nn.Dropout1d                 -
nn.Dropout2d         -                    nn.Dropout2d                 -
nn.Dropout3d         -                    nn.Dropout3d                 -
nn.ELU               -                    nn.ELU                       jax.nn.elu
nn.Embedding         -                    nn.Embedding                 -
nn.Flatten           -                    nn.Flatten                   -
nn.Fold              -                    nn.Fold                      -
nn.GELU              -                    nn.GELU                      jax.nn.gelu
nn.GLU               -                    nn.GLU                       jax.nn.glu
nn.GroupNorm         -                    nn.GroupNorm                 -
nn.GRU               -                    nn.GRU                       -
nn.GRUCell           -                    nn.GRUCell                   -
nn.Hardshrink        -                    nn.Hardshrink                -
nn.Hardsigmoid       -                    nn.Hardsigmoid               -
nn.Hardswish         -                    nn.Hardswish                 -
nn.Hardtanh          -                    nn.Hardtanh                  -
nn.Identity          -                    nn.Identity                  jax.nn.identity
nn.InstanceNorm1d    -                    nn.InstanceNorm1d            -
nn.InstanceNorm2d    -                    nn.InstanceNorm2d            -
nn.InstanceNorm3d    -                    nn.InstanceNorm3d            -
nn.LayerNorm         -                    nn.LayerNorm                 -
nn.LeakyReLU         -                    nn.LeakyReLU                 jax.nn.leaky_relu
nn.Linear            -                    nn.Linear                    -
nn.LocalResponseNorm -                    nn.LocalResponseNorm         -
nn.LogSigmoid        -                    nn.LogSigmoid                jax.nn.log_sigmoid
nn.LogSoftmax        -                    nn.LogSoftmax                jax.nn.log_softmax
nn.LSTM              -                    nn.LSTM                      -
nn.LSTMCell          -                    nn.LSTMCell                  -
nn.MaxPool1d         -                    nn.MaxPool1d                 -
nn.MaxPool2d         -                    nn.MaxPool2d                 -
nn.MaxPool3d         -                    nn.MaxPool3d                 -
nn.MaxUnpool1d       -                    nn.MaxUnpool1d               -
nn.MaxUnpool2d       -                    nn.MaxUnpool2d               -
nn.MaxUnpool3d       -                    nn.MaxUnpool3d               -
nn.Mish              -                    nn.Mish                      jax.nn.mish
nn.Module            -                    nn.Module                    -
nn.MultiHeadAttention -                    nn.MultiheadAttention        -
nn.Parameter         -                    nn.Parameter                 -
nn.PixelShuffle      -                    nn.PixelShuffle              -
nn.PixelUnshuffle    -                    nn.PixelUnshuffle            -
nn.PReLU             -                    nn.PReLU                     -
nn.ReflectionPad1d   -                    nn.ReflectionPad1d           -
nn.ReflectionPad2d   -                    nn.ReflectionPad2d           -
nn.ReflectionPad3d   -                    nn.ReflectionPad3d           -
nn.ReLU              -                    nn.ReLU                      jax.nn.relu
nn.ReLU6             -                    nn.ReLU6                     jax.nn.relu6
nn.ReplicationPad1d  -                    nn.ReplicationPad1d          -
nn.ReplicationPad2d  -                    nn.ReplicationPad2d          -
nn.ReplicationPad3d  -                    nn.ReplicationPad3d          -
nn.RMSNorm           -                    nn.RMSNorm                   -
nn.RNN               -                    nn.RNN                       -
nn.RNNCell           -                    nn.RNNCell                   -
nn.scaled_dot_product_attention -                    F.scaled_dot_product_attention jax.nn.dot_product_attention
nn.SELU              -                    nn.SELU                      jax.nn.selu
nn.Sequential        -                    nn.Sequential                -
nn.Sigmoid           -                    nn.Sigmoid                   jax.nn.sigmoid
nn.SiLU              -                    nn.SiLU                      jax.nn.silu
nn.Softmax           -                    nn.Softmax                   jax.nn.softmax
nn.Softplus          -                    nn.Softplus                  jax.nn.softplus
nn.Softshrink        -                    nn.Softshrink                -
nn.Softsign          -                    nn.Softsign                  -
nn.Tanh              -                    nn.Tanh                      -
nn.Tanhshrink        -                    nn.Tanhshrink                -
nn.TransformerDecoder -                    nn.TransformerDecoder        -
nn.TransformerDecoderLayer -                    nn.TransformerDecoderLayer   -
nn.TransformerEncoder -                    nn.TransformerEncoder        -
nn.TransformerEncoderLayer -                    nn.TransformerEncoderLayer   -
nn.Unflatten         -                    nn.Unflatten                 -
nn.Unfold            -                    nn.Unfold                    -
nn.Upsample          -                    nn.Upsample                  -
nn.ZeroPad1d         -                    nn.ZeroPad1d                 -
nn.ZeroPad2d         -                    nn.ZeroPad2d                 -
nn.ZeroPad3d         -                    nn.ZeroPad3d                 -

initializers.constant -                    nn.init.constant_            jax.nn.initializers.constant
initializers.glorot_normal -                    nn.init.xavier_normal_       jax.nn.initializers.glorot_normal
initializers.glorot_uniform -                    nn.init.xavier_uniform_      jax.nn.initializers.glorot_uniform
initializers.he_normal -                    nn.init.kaiming_normal_      jax.nn.initializers.he_normal
initializers.he_uniform -                    nn.init.kaiming_uniform_     jax.nn.initializers.he_uniform
initializers.kaiming_normal -                    nn.init.kaiming_normal_      jax.nn.initializers.kaiming_normal
initializers.kaiming_uniform -                    nn.init.kaiming_uniform_     jax.nn.initializers.kaiming_uniform
initializers.lecun_normal -                    -                            jax.nn.initializers.lecun_normal
initializers.lecun_uniform -                    -                            jax.nn.initializers.lecun_uniform
initializers.normal  -                    nn.init.normal_              jax.nn.initializers.normal
initializers.ones    -                    nn.init.ones_                jax.nn.initializers.ones
initializers.orthogonal -                    nn.init.orthogonal_          jax.nn.initializers.orthogonal
initializers.truncated_normal -                    nn.init.trunc_normal_        jax.nn.initializers.truncated_normal
initializers.uniform -                    nn.init.uniform_             jax.nn.initializers.uniform
initializers.variance_scaling -                    -                            jax.nn.initializers.variance_scaling
initializers.xavier_normal -                    nn.init.xavier_normal_       jax.nn.initializers.xavier_normal
initializers.xavier_uniform -                    nn.init.xavier_uniform_      jax.nn.initializers.xavier_uniform
initializers.zeros   -                    nn.init.zeros_               jax.nn.initializers.zeros

optim.adafactor      -                    torch.optim.Adafactor        optax.adafactor
optim.Adagrad        -                    torch.optim.Adagrad          -
optim.adagrad        -                    torch.optim.Adagrad          optax.adagrad
optim.Adam           -                    torch.optim.Adam             -
optim.adam           -                    torch.optim.Adam             optax.adam
optim.AdamW          -                    torch.optim.AdamW            -
optim.adamw          -                    torch.optim.AdamW            optax.adamw
optim.add_decayed_weights -                    -                            optax.add_decayed_weights
optim.chain          -                    -                            optax.chain
optim.clip           -                    nn.utils.clip_grad_value_    optax.clip
optim.clip_by_global_norm -                    -                            optax.clip_by_global_norm
optim.clip_gradients -                    nn.utils.clip_grad_norm_     -
optim.ema            -                    -                            optax.ema
optim.lion           -                    -                            optax.lion
optim.masked         -                    -                            optax.masked
optim.minimize       -                    torch.optim.LBFGS            jax.scipy.optimize.minimize,optax.lbfgs
optim.muon           -                    torch.optim.Muon             optax.contrib.muon
optim.normalize      -                    -                            optax.normalize_by_update_norm
optim.RMSprop        -                    torch.optim.RMSprop          -
optim.rmsprop        -                    torch.optim.RMSprop          optax.rmsprop
optim.scale          -                    -                            optax.scale
optim.scale_by_adagrad -                    -                            optax.scale_by_rss
optim.scale_by_adam  -                    -                            optax.scale_by_adam
optim.scale_by_learning_rate -                    -                            optax.scale_by_learning_rate
optim.scale_by_lion  -                    -                            optax.scale_by_lion
optim.scale_by_rmsprop -                    -                            optax.scale_by_rms
optim.scale_by_sgd   -                    -                            optax.trace
optim.SGD            -                    torch.optim.SGD              -
optim.sgd            -                    torch.optim.SGD              optax.sgd

optim.schedules.constant -                    torch.optim.lr_scheduler.ConstantLR optax.constant_schedule
optim.schedules.cosine -                    torch.optim.lr_scheduler.CosineAnnealingLR optax.cosine_decay_schedule
optim.schedules.cosine_restarts -           torch.optim.lr_scheduler.CosineAnnealingWarmRestarts -
optim.schedules.exponential -                    torch.optim.lr_scheduler.ExponentialLR optax.exponential_decay
optim.schedules.join -                    torch.optim.lr_scheduler.SequentialLR optax.join_schedules
optim.schedules.linear -                    torch.optim.lr_scheduler.LinearLR optax.linear_schedule
optim.schedules.multi_step -                    torch.optim.lr_scheduler.MultiStepLR -
optim.schedules.one_cycle -                    torch.optim.lr_scheduler.OneCycleLR optax.cosine_onecycle_schedule
optim.schedules.piecewise -                    -                            optax.piecewise_constant_schedule
optim.schedules.polynomial -                    torch.optim.lr_scheduler.PolynomialLR optax.polynomial_schedule
optim.schedules.step -                    torch.optim.lr_scheduler.StepLR -
optim.schedules.warm_up -                    -                            optax.warmup_constant_schedule

distributed.barrier  -                    torch.distributed.barrier    -
distributed.rank     -                    torch.distributed.get_rank   jax.process_index
distributed.size     -                    torch.distributed.get_world_size jax.process_count
"""
"""A line for each name without `tg.`: NumPy's, PyTorch's and JAX's names for it, separated by commas, or a hyphen.

`jnp` stands for NumPy's names in `jax.numpy`.
"""


def _names(numpy: str, torch: str, jax: str) -> Counterparts:
    jax = numpy.replace("np.", "jnp.") if jax == "jnp" else jax
    return Counterparts(*(() if part == "-" else tuple(part.split(",")) for part in (numpy, torch, jax)))


@cache
def counterparts() -> dict[str, Counterparts]:
    """Returns the table, by the public name without `tg.`."""
    return {name: _names(*rest) for name, *rest in map(str.split, filter(None, TABLE.splitlines()))}


@cache
def by_foreign_name() -> dict[str, str]:
    """Returns the first public name, without `tg.`, for the last part of each name in another library."""
    pairs = [(name, theirs) for name, row in counterparts().items() for library in row for theirs in library]
    return {theirs.rpartition(".")[2]: name for name, theirs in reversed(pairs)}
