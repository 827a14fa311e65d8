"""Reading and changing elements."""

import numpy as np

import tensorgrad as tg

x = tg.arange(12, dtype="f32").reshape(3, 4)
assert x[1:, ::2].shape == (2, 2) and x[..., None].shape == (3, 4, 1)
assert x[[0, 2]].shape == (2, 4) and x[x > 5].shape == (6,)
y = x.at[0].set(1.0).at[:, 1].add(x[:, 0])
z = tg.where(y > 3, y, tg.zeros_like(y))
rows: list[list[float]] = z.tolist()
array: np.ndarray = z.numpy()
assert len(x) == 3 and array.shape == (3, 4) and rows[0][0] == 0.0
for row in x:
    print(float(row.sum()))
