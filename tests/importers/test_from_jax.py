"""`tg.from_jax`: values and gradients of functions of JAX's, training, and our steps as XLA and IREE compile them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from elsewhere import Run, by_iree, by_xla

import tensorgrad as tg
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, arguments_of, results_of
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.errors import InputError, OptionError
from tensorgrad.tools.parsing import parse_module

pytestmark = pytest.mark.nightly

NAMES = (
    *("mlp_step", "transformer_block", "conv_net", "ode", "reversed_scan", "sorting", "gathers", "scatters"),
    *("reductions", "own_reductions", "branches", "functions"),
)
OF_F32 = ("ode", "functions", "own_reductions")
BOUND = 1e-5


def example(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    examples: Mapping[str, Any] = import_module("jax_functions").EXAMPLES
    assert tuple(examples) == NAMES
    return examples[name]


def assert_close(results: Any, expected: Any) -> None:
    tree = import_module("jax").tree
    for result, value in zip(tree.leaves(results), tree.leaves(expected), strict=True):
        assert tuple(result.shape) == value.shape
        scale = max(1.0, float(np.abs(value).max(initial=0)))
        np.testing.assert_allclose(np.asarray(result), np.asarray(value), rtol=BOUND, atol=BOUND * scale)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("name", NAMES)
def test_values(name: str, device: tg.DeviceName) -> None:
    jax = import_module("jax")
    function, arguments = example(name)
    module = tg.from_jax(function, *arguments)
    expected = jax.jit(function)(*arguments)
    assert_close(tg.jit(module, device=device)(*arguments) if device == "cpu" else module(*arguments), expected)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OF_F32])
def test_values_in_bf16(name: str) -> None:
    """Each op rounds once, as XLA's do on a CPU, but for what XLA fuses and rounds later."""
    jax = import_module("jax")
    function, arguments = example(name)
    narrow = jax.tree.map(
        lambda leaf: leaf.astype(tg.bf16) if np.asarray(leaf).dtype == np.float32 else leaf, arguments
    )
    results, expected = tg.from_jax(function, *narrow)(*narrow), jax.jit(function)(*narrow)
    for result, value in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        ours, theirs = np.asarray(result), np.asarray(value)
        assert ours.dtype == theirs.dtype
        scale = max(1.0, float(np.abs(theirs.astype(np.float64)).max(initial=0)))
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), atol=2**-6 * scale)


def test_parameters_of_bf16() -> None:
    numpy = import_module("jax.numpy")
    params = {"w": numpy.ones((3, 2), tg.bf16), "b": numpy.zeros(2)}
    x = numpy.ones((4, 3), tg.bf16)
    model = tg.from_jax(lambda params, x: (x @ params["w"]).astype("float32") + params["b"], params, x, params=0)
    assert {path: leaf.dtype for path, leaf in model.named_parameters().items()} == {"w": tg.bf16, "b": tg.f32}
    np.testing.assert_array_equal(np.asarray(model.initialized()(x)), np.full((4, 2), 3, np.float32))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "own_reductions"])  # without derivatives in JAX
def test_gradients(name: str) -> None:
    """Of a sum of sines of all results, with respect to all floats."""
    jax, jnp = import_module("jax"), import_module("jax.numpy")
    function, arguments = example(name)
    module = tg.from_jax(function, *arguments)
    leaves, structure = jax.tree.flatten(arguments)
    floats = [place for place, leaf in enumerate(leaves) if np.asarray(leaf).dtype == np.float32]

    def filled(values: Any) -> Any:
        given = dict(zip(floats, values, strict=True))
        return jax.tree.unflatten(structure, [given.get(place, leaf) for place, leaf in enumerate(leaves)])

    def ours(*values: Any) -> Any:
        results = jax.tree.leaves(module(*filled(values)))
        return sum(tg.sum(tg.sin(result)) for result in results if result.dtype == np.float32)

    def theirs(*values: Any) -> Any:
        results = jax.tree.leaves(function(*filled(values)))
        return sum(jnp.sum(jnp.sin(result)) for result in results if result.dtype == jnp.float32)

    places, values = tuple(range(len(floats))), [leaves[place] for place in floats]
    assert_close(tg.grad(ours, argnums=places)(*values), jax.grad(theirs, argnums=places)(*values))


def test_derivatives_stop_where_jax_says() -> None:
    jax, jnp, lax = import_module("jax"), import_module("jax.numpy"), import_module("jax").lax

    def function(x: Any) -> Any:
        last, rows = lax.scan(lambda carry, row: (carry + lax.stop_gradient(row) * row, carry), jnp.zeros(3), x)
        chosen = lax.cond(x.sum() > 0, lambda t: t * lax.stop_gradient(t), jnp.sin, x)
        inner = jax.jit(lambda t: jnp.cos(lax.stop_gradient(t)) * t)(x)
        return jnp.sum(last) + jnp.sum(rows) + jnp.sum(chosen) + jnp.sum(jax.vmap(lambda row: jnp.exp(row))(inner))

    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    for sign in (1, -1):
        assert_close(tg.grad(tg.from_jax(function, x))(sign * x), jax.grad(function)(sign * x))


SPECIAL = {
    "bessel": lambda jax: lambda x: jax.scipy.special.i1(x / 100),
    "erfc": lambda jax: jax.scipy.special.erfc,
    "erfinv": lambda jax: lambda x: jax.scipy.special.erfinv(x / 1e3),
    "exact gelu": lambda jax: lambda x: jax.nn.gelu(x, approximate=False),
    "gamma": lambda jax: lambda x: jax.scipy.special.gamma(jax.numpy.tanh(x) + 2.5),
    "log_ndtr": lambda jax: lambda x: jax.scipy.special.log_ndtr(x / 10),
    "ndtr": lambda jax: jax.scipy.special.ndtr,
    "polygamma": lambda jax: lambda x: jax.scipy.special.polygamma(1, jax.numpy.tanh(x) + 2.5),
    "relu": lambda jax: jax.nn.relu,
    "relu6": lambda jax: lambda x: jax.nn.relu6(6 * x),
    "sigmoid": lambda jax: jax.nn.sigmoid,
    "silu of a loop": lambda jax: lambda x: jax.lax.scan(lambda y, _: (jax.nn.silu(y), None), x, None, 2)[0],
}
"""Functions of JAX's that an export writes as polynomials and exponentials."""


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_keep_their_derivatives(name: str) -> None:
    jax = import_module("jax")
    import_module("jax.scipy.special")
    function = SPECIAL[name](jax)
    x = np.array([-500, -100, -89, -20, -2, -1, -1e-3, -1e-20, 0, 1e-20, 1e-3, 1, 2, 20, 89, 100, 500], np.float32)
    module = tg.from_jax(function, x)
    ours = tg.grad(lambda x: tg.sum(module(x)))(x)
    np.testing.assert_allclose(ours.numpy(), jax.vmap(jax.grad(function))(x), rtol=2e-5, atol=1e-30)


def test_derivatives_of_ones_own_are_kept() -> None:
    jax, jnp = import_module("jax"), import_module("jax.numpy")

    @jax.custom_vjp
    def rounded(x: Any) -> Any:
        return jnp.round(x) + 0 * x

    rounded.defvjp(lambda x: (rounded(x), None), lambda _, slope: (slope,))

    @jax.custom_jvp
    def tripled(x: Any) -> Any:
        return 3 * x

    tripled.defjvp(lambda primals, slopes: (tripled(*primals), 7 * slopes[0]))

    @jax.custom_vjp
    def chosen(x: Any, place: Any, y: Any) -> Any:
        return x[place] * y, place + 1

    chosen.defvjp(
        lambda x, place, y: (chosen(x, place, y), (x, place)),
        lambda kept, slopes: (jnp.cos(kept[0]) * slopes[0], None, 5 * kept[0][kept[1]] * slopes[0]),
    )

    def function(x: Any) -> Any:
        last = jax.lax.fori_loop(0, 3, lambda i, y: tripled(y) * chosen(y, i, y[0])[0], x)
        mapped = jax.vmap(lambda y: tripled(rounded(y)))(jnp.stack([x, 2 * x]))
        return jnp.sum(jax.lax.map(rounded, jax.nn.relu(x)) * tripled(x)) + jnp.sum(last) + jnp.sum(mapped**2)

    x = np.array([0.2, 1.7, -0.6], np.float32)
    module = tg.from_jax(function, x)
    assert_close(module(x), function(x))
    assert_close(tg.grad(module)(x), jax.grad(function)(x))
    compiled = tg.jit(tg.grad(module), device="cpu")
    assert_close(compiled(x), jax.grad(function)(x))

    def scaled(by: float) -> Any:
        own = jax.custom_vjp(lambda x: x)
        own.defvjp(lambda x: (x, None), lambda _, slope: (by * slope,))
        return own

    def alike(x: Any) -> Any:
        return jnp.sum(scaled(0.5)(x) * scaled(-2.0)(x))

    assert_close(tg.grad(tg.from_jax(alike, x))(x), jax.grad(alike)(x))

    def again(x: Any) -> Any:
        return jnp.sum(chosen(x, 1, tripled(x[0]))[0] * tripled(x) * jax.nn.relu(x))

    twice = tg.from_jax(again, x)
    slopes = tg.grad(lambda x: tg.sum(tg.grad(twice)(x) ** 2))(x)
    assert_close(slopes, jax.grad(lambda x: jnp.sum(jax.grad(again)(x) ** 2))(x))


def tree_model() -> tuple[Callable[..., Any], Any, np.ndarray, np.ndarray]:
    jnp = import_module("jax.numpy")
    rng = np.random.default_rng(0)

    def floats(*shape: int) -> np.ndarray:
        return (0.3 * rng.normal(size=shape)).astype(np.float32)

    def apply(params: Any, x: Any) -> Any:
        first, second = params["layers"]
        return jnp.tanh(x @ first["w"] + first["b"]) @ second["w"] * params["scale"]

    params = {"layers": [{"w": floats(8, 16), "b": floats(16)}, {"w": floats(16, 4)}], "scale": 3}
    return apply, params, floats(12, 8), rng.integers(0, 4, 12).astype(np.int32)


def test_parameters_are_trained() -> None:
    jax, jnp = import_module("jax"), import_module("jax.numpy")
    apply, params, x, y = tree_model()
    model = tg.from_jax(apply, params, x, params=0)
    assert list(model.named_parameters()) == ["layers.0.b", "layers.0.w", "layers.1.w"]
    assert_close(model(x), apply(params, x))
    assert model(x[:5]).shape == (5, 4)
    training = tg.compile(
        model,
        loss=lambda model, x, y: tg.cross_entropy(model(x), y),
        optimizer=tg.optim.sgd(0.1),
        inputs=tg.like({"x": x, "y": y}),
        device="cpu",
    )

    def loss(layers: Any) -> Any:
        logits = jax.nn.log_softmax(apply({**params, "layers": layers}, x))
        return -jnp.mean(jnp.take_along_axis(logits, y[:, None], 1))

    layers = params["layers"]
    for _ in range(10):
        value, slopes = jax.value_and_grad(loss)(layers)
        layers = jax.tree.map(lambda old, slope: old - 0.1 * slope, layers, slopes)
        assert_close(training.step(x=x, y=y), value)


def test_what_is_refused() -> None:
    lax, matrices = import_module("jax").lax, import_module("jax.scipy.linalg")
    apply, params, x, _ = tree_model()
    model = tg.from_jax(apply, params, x, params=0)
    with pytest.raises(InputError, match="takes arguments like the example's"):
        model(x, x)
    with pytest.raises(OptionError, match="JAX can't export the function"):
        model(x[:, :3])

    def several(x: Any) -> Any:
        return matrices.schur(x)[0] + lax.while_loop(lambda x: x.sum() < 3, lambda x: x + 1, x)

    with pytest.raises(
        OptionError, match=r"(?s)lapack_sgees_ffi: .*\(.*test_from_jax.py:\d+\).*while: .*test_from_jax"
    ):
        tg.from_jax(several, np.eye(3, dtype=np.float32))


@pytest.mark.parametrize("compiled", [by_xla, by_iree])
def test_our_step_elsewhere(compiled: Callable[[str], Run]) -> None:
    """Fifty losses of a training step with Adam."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(16, 8)).astype(np.float32), rng.integers(0, 4, 16).astype(np.int32)
    model = tg.nn.Sequential(tg.nn.Linear(8, 32), tg.nn.LayerNorm(32), tg.nn.GELU(), tg.nn.Linear(32, 4))
    training = tg.compile(
        model,
        loss=lambda model, x, y: tg.cross_entropy(model(x), y),
        optimizer=tg.optim.adam(1e-2),
        inputs=tg.like({"x": x, "y": y}),
        device="numpy",
    )
    text = training.module("stablehlo")
    function = find_function(parse_module(text, "step.mlir"), None)
    values: dict[str, Any] = {"x": x, "y": y, **{name: np.array(of) for name, of in training.parameters().items()}}
    run = compiled(text)
    for step in range(1, 51):
        settings = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "learning_rate": 1e-2, "step": step, "sqrt": np.sqrt}
        inputs: list[np.ndarray] = []
        for slot, argument in zip(arguments_of(function), function.body.block.args, strict=True):
            if slot.formula is not None:
                inputs.append(np.asarray(eval(slot.formula, {}, settings), np.float32))
            else:
                inputs.append(values.setdefault(slot.name, np.zeros(type_of(argument).get_shape(), np.float32)))
        loss: float | None = None
        for slot, value in zip(results_of(function), run(inputs), strict=True):
            if slot.role == Role.UPDATE:
                values[slot.name] = value
            else:
                loss = float(value)
        assert loss == pytest.approx(float(np.asarray(training.step(x=x, y=y))), rel=BOUND)
