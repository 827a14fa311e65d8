"""Functions of one example, on all of a batch."""

import tensorgrad as tg


def distance(x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    """The distance of two points."""
    return tg.sqrt(tg.sum((x - y) ** 2))


points = tg.random.normal(tg.random.key(0), (5, 3))
to_first = tg.vmap(distance, in_axes=(0, None))(points, points[0])
table = tg.vmap(tg.vmap(distance, in_axes=(None, 0)), in_axes=(0, None))(points, points)
gradients = tg.vmap(tg.grad(lambda x: tg.sum(tg.sin(x))))(points)
assert to_first.shape == (5,) and table.shape == (5, 5) and gradients.shape == (5, 3)
scaled = tg.tree_map(lambda x: 2 * x, {"a": points, "b": [points[0]]})
vector, unravel = tg.ravel_pytree(scaled)
print(vector.shape, unravel(vector)["a"].shape)
