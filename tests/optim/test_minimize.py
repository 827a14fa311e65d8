"""L-BFGS: known minima, beside SciPy's, and what stops it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import scipy.optimize
from sklearn.datasets import load_breast_cancer

import tensorgrad as tg
from tensorgrad.errors import DivergenceError, OptionError, ParameterError, ShapeError, TraceError


def rosenbrock(point: Any) -> Any:
    return tg.sum(100 * (point[1:] - point[:-1] ** 2) ** 2 + (1 - point[:-1]) ** 2)


def f64(values: Any) -> Any:
    return tg.array(np.asarray(values, np.float64), "f64")


@pytest.mark.parametrize("history", [1, 5, 10])
@pytest.mark.parametrize("size", [2, 10])
def test_rosenbrock(size: int, history: int) -> None:
    start = np.resize([-1.2, 1.0], size)
    minimum = tg.optim.minimize(
        rosenbrock, f64(start), max_steps=500, history=history, value_tolerance=0, device="numpy"
    )
    assert minimum.converged and minimum.reason == "the gradient is below gradient_tolerance"
    assert minimum.gradient_norm <= 1e-5 and minimum.value < 1e-9
    np.testing.assert_allclose(minimum.point, np.ones(size), atol=1e-4)
    assert minimum.point.dtype == np.float64


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_rosenbrock_in_f32(device: tg.DeviceName) -> None:
    minimum = tg.optim.minimize(rosenbrock, np.array([-1.2, 1.0]), device=device)
    np.testing.assert_allclose(minimum.point, np.ones(2), atol=1e-2)
    assert minimum.point.dtype == np.float32 and minimum.steps < 60 and minimum.evaluations < 120


def test_it_needs_no_more_evaluations_than_scipy() -> None:
    start = np.resize([-1.2, 1.0], 20)
    minimum = tg.optim.minimize(rosenbrock, f64(start), max_steps=500, value_tolerance=0, device="numpy")
    expected: Any = scipy.optimize.minimize(
        scipy.optimize.rosen, start, jac=scipy.optimize.rosen_der, method="L-BFGS-B", options={"gtol": 1e-5, "ftol": 0}
    )
    assert minimum.converged and minimum.evaluations <= 1.3 * expected.nfev


def test_a_quadratic_is_solved() -> None:
    random = np.random.default_rng(0)
    root = random.normal(size=(30, 12))
    matrix, right = root.T @ root + np.eye(12), random.normal(size=12)
    minimum = tg.optim.minimize(
        lambda x, a, b: 0.5 * x @ (a @ x) - b @ x,
        f64(np.zeros(12)),
        f64(matrix),
        f64(right),
        value_tolerance=0,
        gradient_tolerance=1e-8,
        device="numpy",
    )
    np.testing.assert_allclose(minimum.point, np.linalg.solve(matrix, right), atol=1e-7)


def data() -> tuple[Any, Any]:
    loaded: Any = load_breast_cancer()
    return (loaded.data - loaded.data.mean(0)) / loaded.data.std(0), loaded.target.astype(np.float64)


def logistic(model: Any, x: Any, y: Any) -> Any:
    """The loss of logistic regression, with a penalty that makes its minimum unique."""
    logits = x @ model["weight"] + model["bias"]
    return tg.mean(tg.softplus(logits) - y * logits) + 0.01 * tg.sum(model["weight"] ** 2)


def logistic_in_numpy(flat: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    logits = x @ flat[:-1] + flat[-1]
    errors = (1 / (1 + np.exp(-logits)) - y) / len(y)
    value = np.mean(np.logaddexp(0, logits) - y * logits) + 0.01 * np.sum(flat[:-1] ** 2)
    return value, np.append(x.T @ errors + 0.02 * flat[:-1], errors.sum())


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_logistic_regression_as_scipy(dtype: str) -> None:
    x, y = data()
    start = {"weight": tg.array(np.zeros(30), dtype), "bias": tg.array(0.0, dtype)}
    minimum = tg.optim.minimize(logistic, start, tg.array(x, dtype), tg.array(y, dtype), device="cpu")
    expected: Any = scipy.optimize.minimize(
        logistic_in_numpy, np.zeros(31), (x, y), jac=True, method="L-BFGS-B", options={"gtol": 1e-8, "ftol": 0}
    )
    # In f32 a gradient this small is all rounding errors, which differ by CPU.
    assert minimum.converged or (dtype == "f32" and "as precise as it can be" in minimum.reason)
    assert minimum.value == pytest.approx(expected.fun, rel=1e-6)
    np.testing.assert_allclose(minimum.point["weight"], expected.x[:-1], atol=2e-3)
    np.testing.assert_allclose(minimum.point["bias"], expected.x[-1], atol=2e-3)


def test_a_model_is_fitted_and_its_frozen_parameters_stay() -> None:
    x = np.linspace(-2, 2, 40, dtype=np.float32)[:, None]
    y = np.sin(2 * x)
    model = tg.nn.MLP(1, 12, 1, activation=tg.tanh).initialized(0)
    model.freeze("layers.0.bias")

    def loss(model: Any, x: Any, y: Any) -> Any:
        return tg.mean((model(x) - y) ** 2)

    before = model.state_dict()
    minimum = tg.optim.minimize(loss, model, x, y, max_steps=200, device="cpu")
    assert minimum.value < 1e-3 < float(loss(model, x, y))
    assert float(loss(minimum.point, x, y)) == pytest.approx(minimum.value, rel=1e-3, abs=1e-6)
    after = minimum.point.state_dict()
    np.testing.assert_array_equal(after["layers.0.bias"], before["layers.0.bias"])
    assert not np.array_equal(after["layers.0.weight"], before["layers.0.weight"])
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    minimum.point.trainable()  # it can be changed, as any initialized model


def test_values_never_increase_and_steps_may_leave_the_domain() -> None:
    minima = [
        tg.optim.minimize(lambda x: x - tg.log(x), f64(20.0), max_steps=steps, device="numpy") for steps in range(1, 8)
    ]
    values = [minimum.value for minimum in minima]
    assert values == sorted(values, reverse=True)
    assert float(minima[-1].point) == pytest.approx(1.0, abs=1e-4)


def test_what_stops_it() -> None:
    start = f64([-1.2, 1.0])
    minimum = tg.optim.minimize(rosenbrock, start, max_steps=3, device="numpy")
    assert (minimum.steps, minimum.converged, minimum.reason) == (3, False, "max_steps were taken")
    again = tg.optim.minimize(rosenbrock, minimum.point, max_steps=1, device="numpy")
    assert again.value < minimum.value
    minimum = tg.optim.minimize(rosenbrock, f64([1.0, 1.0]), device="numpy")
    assert (minimum.steps, minimum.evaluations, minimum.converged) == (0, 1, True)
    minimum = tg.optim.minimize(rosenbrock, start, value_tolerance=1e-2, gradient_tolerance=0, device="numpy")
    assert minimum.reason == "the value changes by less than value_tolerance"
    minimum = tg.optim.minimize(
        lambda x: tg.sum((x - 1e-3) ** 2 + 1e3), np.ones(3), value_tolerance=0, gradient_tolerance=0, device="numpy"
    )
    assert not minimum.converged and minimum.reason.startswith("no step lowers the value")


def test_a_function_without_a_lower_bound_ends() -> None:
    minimum = tg.optim.minimize(lambda x: -x, 1.0, max_steps=5, device="numpy")
    assert not minimum.converged and minimum.value < -1e6


MISTAKES: list[tuple[Any, Any, str]] = [
    (
        lambda: tg.optim.minimize(rosenbrock, np.ones(2), max_steps=0),
        OptionError,
        "max_steps must be a positive integer",
    ),
    (lambda: tg.optim.minimize(rosenbrock, np.ones(2), history=cast(Any, 1.5)), OptionError, "history must be"),
    (lambda: tg.optim.minimize(rosenbrock, np.ones(2), gradient_tolerance=-1.0), OptionError, "gradient_tolerance"),
    (lambda: tg.optim.minimize(rosenbrock, []), OptionError, "no elements to change"),
    (lambda: tg.optim.minimize(cast(Any, None), np.ones(2)), TraceError, "minimize takes a function"),
    (lambda: tg.optim.minimize(tg.log, 0.0, device="numpy"), DivergenceError, "is not finite at the start"),
    (lambda: tg.optim.minimize(lambda x: x, np.ones(2), device="numpy"), ShapeError, "scalar"),
    (lambda: tg.optim.minimize(lambda m: tg.sum(m.weight), tg.nn.Linear(1, 1)), ParameterError, "has no values"),
]


@pytest.mark.parametrize(("mistake", "kind", "message"), MISTAKES)
def test_mistakes(mistake: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        mistake()


def test_the_name_of_pytorch_points_to_it() -> None:
    optim: Any = tg.optim
    with pytest.raises(AttributeError, match=r"tg\.optim\.minimize"):
        _ = optim.LBFGS
