"""Decompositions and systems."""

import tensorgrad as tg

a = tg.array([[2.0, 1.0], [1.0, 3.0]])
q, r = tg.linalg.qr(a)
values, vectors = tg.linalg.eigh(a)
u, s, vh = tg.linalg.svd(a, full_matrices=False)
sign, logarithm = tg.linalg.slogdet(a)
x = tg.linalg.solve(a, tg.ones(2))
assert tg.allclose(a @ x, tg.ones(2), atol=1e-5)
assert (q @ r).shape == (u * s @ vh).shape == (2, 2)
print(values.tolist(), vectors.shape, float(sign), float(logarithm), float(tg.linalg.det(a)))
