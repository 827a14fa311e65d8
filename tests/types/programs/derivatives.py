"""Derivatives of functions: of arrays, of dicts, with results beside them, of higher order."""

import numpy as np

import tensorgrad as tg


def cubic(x: tg.Tensor) -> tg.Tensor:
    """A scalar function."""
    return tg.sum(x**3)


point = tg.array([1.0, 2.0])
slope = tg.grad(cubic)(point)
assert slope.tolist() == [3.0, 12.0]
value, again = tg.value_and_grad(cubic)(point)
assert float(value) == 9.0 and again.shape == (2,)


def linear(parameters: dict[str, tg.Tensor], x: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
    """A loss and the predictions."""
    y = x @ parameters["w"] + parameters["b"]
    return tg.mean(y**2), y


start = {"w": tg.ones(3), "b": tg.array(0.0)}
gradients, predictions = tg.grad(linear, has_aux=True)(start, tg.ones((4, 3)))
print(gradients["w"].shape, predictions.shape)

curvature = tg.hessian(cubic)(point)
assert curvature.shape == (2, 2)
rows = tg.jacobian(lambda x: x**2)(point)
assert rows.shape == (2, 2)
result, pull = tg.vjp(cubic, point)
(back,) = pull(tg.array(1.0))
moved, tangent = tg.jvp(cubic, (point,), (tg.ones(2),))
np.testing.assert_allclose(float(tangent), float(tg.sum(back)))
print(float(result), float(moved))
