"""Random functions of JAX's arrays as source code; see `drawing`."""

from __future__ import annotations

import random

import drawing
import numpy as np
from jax_judging import JaxProgram, jnp, sample

UNARY = """
abs negative exp sin cos tan tanh floor ceil round sign square expm1 sinh cosh arcsinh arctan reciprocal exp2 sqrt log
log2 log10 log1p arccosh arcsin arccos arctanh isnan isinf isfinite nan_to_num cbrt trunc degrees radians fabs positive
"""

SPECIAL = "rsqrt logistic erf erfc erf_inv is_finite"

ACTIVATIONS = """
relu gelu silu elu celu selu softplus sigmoid log_sigmoid hard_tanh hard_sigmoid hard_swish leaky_relu mish relu6
soft_sign squareplus sparse_plus softmax log_softmax standardize
"""

BINARY = """
add subtract multiply divide maximum minimum fmax fmin hypot fmod remainder logaddexp logaddexp2 equal not_equal less
less_equal greater greater_equal float_power
"""

REDUCTIONS = "sum mean max min prod var std any all argmax argmin nansum nanmean count_nonzero ptp median nanmax"

INTEGERS = "bitwise_and bitwise_or bitwise_xor floor_divide remainder left_shift gcd maximum power"

MATRICES = "{x} @ {x}.mT + {n} * jnp.eye({x}.shape[-2])"
"""Symmetric positive definite matrices."""

TEMPLATES = [
    *(f"jnp.{name}({{x}})" for name in UNARY.split()),
    *(f"lax.{name}({{x}})" for name in SPECIAL.split()),
    *(f"jax.nn.{name}({{x}})" for name in ACTIVATIONS.split()),
    *(f"jnp.{name}({{x}}, {{y}})" for name in BINARY.split()),
    *(f"jnp.{name}({{x}}, axis={{d}}, keepdims={{flag}})" for name in REDUCTIONS.split()),
    *(f"jnp.{name}({{x}}, axis=({{d}}, {{e}}))" for name in ("sum", "mean", "max", "min", "var", "prod")),
    *(f"jnp.{name}({{x}})" for name in ("sum", "mean", "max", "prod", "std", "argmax")),
    *(f"jnp.{name}({{x}}, axis={{d}})" for name in ("cumsum", "cumprod", "sort", "argsort", "flip", "squeeze")),
    *(f"lax.{name}({{x}}, {{d}} % {{x}}.ndim)" for name in ("cummax", "cummin", "cumsum")),
    *(f"lax.{name}({{x}}, {{d}} % {{x}}.ndim, reverse=True)" for name in ("cumsum", "cumprod")),
    *(f"jnp.{name}({{k}}, {{n}} + abs({{k}}) % 3)" for name in INTEGERS.split()),
    "jax.nn.logsumexp({x}, axis={d}, keepdims={flag})",
    "jax.nn.softmax({x}, axis={d})",
    "jnp.arctan2({x} + {c}, {y})",
    # Beyond the roots, near which JAX has no digits: its polygamma is wrong below -3.
    *(f"lax.{name}(jnp.abs({{x}}) + 2.5)" for name in ("lgamma", "digamma")),
    "jnp.where({m}, {x}, {y})",
    "jnp.clip({x}, {c}, {c} + 1)",
    "lax.clamp({c}, {x}, {c} + 1)",
    "lax.integer_pow({x}, {n})",
    "lax.pow(jnp.abs({x}) + 0.5, {y} * jnp.ones_like({x}))",
    "{x} ** {n}",
    "{x} * {c} + {n}",
    "{n} - {x} / {c}",
    "lax.stop_gradient({x}) // {c}",
    "lax.stop_gradient({x}) * {x}",
    "{k} + {n} * {k}",
    "{k} // {n} - {k} % {n}",
    "lax.population_count({k})",
    "lax.shift_right_arithmetic({k}, {n}) + lax.shift_right_logical({k}, 28)",
    "{m} & ~{m}",
    "{m}.astype('float32') * {x}",
    "{k}.astype('float32') / {n} + {x}",
    "(lax.stop_gradient({x}) * 3).astype('int32')",
    "lax.bitcast_convert_type({k} | 0x3F800000, 'float32')",
    # Views.
    "{x}.reshape({s})",
    "jnp.transpose({x}, {p})",
    "jnp.swapaxes({x}, {d}, {e})",
    "{x}.mT",
    "jnp.expand_dims({x}, {d})",
    "{x}.ravel()",
    "jnp.roll({x}, {n}, {d})",
    "lax.slice_in_dim({x}, 1, None, {n}, {d})",
    "lax.dynamic_slice_in_dim({x}, {k}.ravel()[0], 1, {d})",
    "lax.dynamic_index_in_dim({x}, {k}.ravel()[-1], {d}, {flag})",
    "lax.dynamic_update_slice_in_dim({x}, {x} * 2, {k}.ravel()[0], {d})",
    "lax.dynamic_update_index_in_dim({x}, {x}.mean(), {k}.ravel()[0], {d})",
    "jnp.broadcast_to({x}, ({n}, *{x}.shape))",
    "jnp.broadcast_to({x}, jnp.broadcast_shapes({x}.shape, {y}.shape))",
    "lax.broadcast_in_dim({x}, (2, *{x}.shape, 3), tuple(range(1, {x}.ndim + 1)))",
    "jnp.diagonal({x}, 0, {d}, {e})",
    "jnp.moveaxis({x}, {d}, {e})",
    "jnp.tile({x}, {n})",
    "jnp.repeat({x}, {n}, {d})",
    "{x}[..., ::2]",
    "{x}[..., ::-1]",
    "{x}[:, None]",
    "{x}[1:-1]",
    "{x}[None, ..., -1]",
    "jnp.split({x}, [1], {d})[1]",
    "jnp.array_split({x}, 2, {d})[0]",
    "jnp.rot90({x})",
    "jnp.concatenate([{x}, {x} * 2], {d})",
    "jnp.concatenate([{x}, {y}], {d})",
    "jnp.stack([{x}, {x} + 1], {d})",
    "lax.pad({x}, {c}, [(1, -1, {n})] * {x}.ndim)",
    "lax.pad({x}, 0.0, [({n}, 0, 0)] * {x}.ndim)",
    "jnp.pad({x}, 1, mode='reflect')",
    "jnp.pad({x}, {n}, mode='edge')",
    "jnp.pad({x}, 1, mode='wrap')",
    "jnp.tril({x}, {n})",
    "jnp.triu({x}, -{n})",
    "jnp.diff({x}, axis={d})",
    "jnp.outer({x}, {y})",
    "jnp.kron({x}, {y})",
    "jnp.trapezoid({x}, axis={d})",
    "jnp.meshgrid({x}.ravel(), {y}.ravel())[0]",
    "jnp.ediff1d({x})",
    # Indices.
    "jnp.take({x}, {k}, axis={d}, mode='clip')",
    "jnp.take({x}, {k}, axis={d}, mode='wrap')",
    "{x}.at[..., {k}].get(mode='fill', fill_value={c})",
    "{x}[{k} % {x}.shape[0]]",
    "{x}[..., {k}.ravel() % {x}.shape[-1]]",
    "jnp.take_along_axis({x}, jnp.argsort({x}, axis={d}), axis={d})",
    "jnp.take_along_axis({x}, jnp.argmax({x}, axis={d}, keepdims=True), axis={d})",
    "{x}.at[{k}.ravel()].add({c})",
    "{x}.at[{k}.ravel()].mul({c}, mode='drop')",
    "{x}.at[..., {k}.ravel()].max({c})",
    "{x}.at[{k}.ravel()].min({c}, mode='drop')",
    "{x}.at[1:].set({x}[:-1] * 2)",
    "{x}.at[..., 0].set({x}[..., -1])",
    "{x}.at[..., ::2].add({c})",
    "jnp.zeros_like({x}).at[jnp.arange({x}.shape[0]) // 2].add({x})",
    "jnp.where({m}, 0, {x}.at[0].multiply({c}))",
    "jax.ops.segment_sum({x}, jnp.arange({x}.shape[0]) // 2, {n})",
    "jax.ops.segment_max({x}, jnp.arange({x}.shape[0]) // 2, ({x}.shape[0] + 1) // 2)",
    "lax.top_k({x}, 1)[0]",
    "lax.top_k({x}, 2)[{n} % 2]",
    "lax.sort_key_val({x}, {x} * 2 + 1)[1]",
    "jnp.searchsorted(jnp.sort({x}.ravel()), lax.stop_gradient({y}))",
    "jnp.digitize({x}, jnp.array([-1.0, 0.0, 0.5]))",
    "jax.nn.one_hot({k} % 4, 4)",
    "jnp.select([{m}, {x} > 0], [{x}, {y}], {c})",
    "jnp.interp({x}, jnp.arange(4.0), jnp.arange(4.0) ** 2)",
    # Products and windows; XLA 0.10 aborts at the derivative of a window of a scalar, of which `[:]` is an error.
    "{x} @ {y}",
    "{x} @ {x}.mT",
    "jnp.dot({x}, {y})",
    "jnp.vdot({x}, {x})",
    "jnp.einsum('...ij,...kj->...ik', {x}, {x})",
    "jnp.einsum('i...,j...->ij', {x}, {x})",
    "jnp.tensordot({x}, {x}, axes=([{d}], [{d}]))",
    "lax.dot_general({x}, {x}, ((({d} % {x}.ndim,), ({d} % {x}.ndim,)), ((), ())))",
    "jnp.convolve({x}.ravel(), jnp.arange({n} + 1.0), mode='same')",
    "lax.conv_general_dilated({x}, jnp.ones((2, {x}.shape[1], 2)) * {x}.mean(), ({n},), 'SAME')",
    "lax.conv_general_dilated({x}, jnp.ones((2, {x}.shape[1], 2, 1)) * {x}.mean(), (1, {n}), [(1, 0), (0, {n})])",
    "lax.conv_general_dilated({x}, jnp.ones(({x}.shape[1], 1, 2, 2)) * {c}, (1, 1), 'VALID',"
    " feature_group_count={x}.shape[1])",
    "lax.conv_general_dilated({x}, jnp.ones((1, {x}.shape[1], 2)), (1,), [(1, 1)], rhs_dilation=({n},))",
    "lax.conv_general_dilated({x}, jnp.ones((1, {x}.shape[1], 2)), (1,), [(1, 1)], lhs_dilation=({n},))",
    "lax.conv_transpose({x}, jnp.ones((2, {x}.shape[-1], 3)), ({n},), 'SAME')",
    "lax.reduce_window({x}[:], 0.0, lax.add, (2,) * {x}.ndim, (1,) * {x}.ndim, 'SAME')",
    "lax.reduce_window({x}[:], -jnp.inf, lax.max, (2,) * {x}.ndim, ({n},) * {x}.ndim, 'VALID')",
    "lax.reduce_window({x}[:], jnp.inf, lax.min, (2,) * {x}.ndim, (1,) * {x}.ndim, 'VALID')",
    "lax.reduce_window({x}[:], 0.0, lax.add, (2,) * {x}.ndim, (1,) * {x}.ndim, 'VALID',"
    " window_dilation=({n},) * {x}.ndim)",
    "jnp.linalg.norm({x}, axis={d})",
    *(f"jnp.linalg.{name}({MATRICES})" for name in ("cholesky", "inv", "det", "eigvalsh", "pinv")),
    f"jnp.linalg.slogdet({MATRICES})[1]",
    f"jnp.linalg.solve({MATRICES}, {{x}})",
    f"jax.scipy.linalg.solve_triangular({MATRICES}, {{x}}, lower={{flag}})",
    f"jax.scipy.linalg.expm(({MATRICES}) / 8)",
    "jnp.linalg.qr({x})[1]",
    "jnp.linalg.svd({x}, compute_uv=False)",
    "lax.cumlogsumexp({x}, {d} % {x}.ndim, reverse={flag})",
    "jax.nn.dot_product_attention({x}, {x} * 0.5, {x} + 1, is_causal={flag})",
    # Functions of functions.
    "jax.vmap(lambda row: jnp.cumsum(row) / {n})({x}.reshape(-1, {x}.shape[-1]))",
    "jax.vmap(jnp.dot, in_axes=(None, 0))({x}, {y})",
    "jax.grad(lambda t: jnp.sum(jnp.sin(t) * {c}))({x})",
    "jax.jvp(jnp.tanh, ({x},), ({x} * {c},))[1]",
    "jax.vjp(lambda t: t ** {n}, {x})[1]({x} * {c})[0]",
    "jax.checkpoint(lambda t: jnp.sin(t) * {c})({x})",
    "lax.scan(lambda carry, row: (carry * {c} + row, jnp.tanh(carry)), jnp.zeros({x}.shape[1:]), {x})[{n} % 2]",
    "lax.scan(lambda carry, row: (carry + row,) * 2, jnp.zeros({x}.shape[1:]), {x}, reverse=True)[1]",
    "lax.fori_loop(0, {n}, lambda i, t: jnp.sin(t) + i, {x})",
    "lax.cond({x}.mean() > {c}, jnp.sin, lambda t: t * 2, {x})",
    "lax.switch({k}.ravel()[0], [jnp.sin, jnp.cos, jnp.square], {x})",
    "lax.associative_scan(jnp.add, {x}, axis={d})",
    "lax.associative_scan(lambda a, b: a * {c} + b, {x})",
    "lax.map(lambda row: jnp.sum(row ** 2), {x})",
]

LANGUAGE = drawing.Language("import jax\nimport jax.numpy as jnp\nfrom jax import lax\n\n", TEMPLATES)


def program(seed: int) -> JaxProgram:
    """Returns the program of a seed."""
    draw = random.Random(seed)
    inputs = [(drawing.shape(draw), "float32") for _ in range(draw.randint(1, 3))]
    inputs.append((drawing.shape(draw), "int32"))
    numbers = np.random.default_rng(seed)
    values = {f"x{i}": sample(shape, dtype, numbers) for i, (shape, dtype) in enumerate(inputs)}
    text = LANGUAGE.program(draw, {name: jnp.asarray(value) for name, value in values.items()})
    return JaxProgram(drawing.function(text, f"<program {seed}>"), inputs, text)
