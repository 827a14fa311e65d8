"""Sample arrays and dtypes for the tests of the Array API."""

from __future__ import annotations

import numpy as np

INTEGRAL = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
REAL = ("float16", "float32", "float64")
DTYPES = ("bool", *INTEGRAL, *REAL)

FLOATS = np.array([[0.5, -0.25, 2.0], [1.0, 0.75, -3.0]])
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 30.0, np.inf, -np.inf, np.nan])
INTEGERS = np.array([[3, 1, 2], [0, 7, 5]])
TRUTHS = np.array([[True, False, True], [False, False, True]])

PAIRS = {
    "float": (np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))),
    "int": (np.repeat([0, 1, 2, 5, 7], 5), np.tile([1, 2, 3, 7, 4], 5)),
    "bool": (np.array([True, True, False, False]), np.array([True, False, True, False])),
}

ROW = np.array([3.0, -1.0, 2.0], np.float32)
CUBE = np.arange(24.0).reshape(2, 3, 4) - 7
REPEATED = np.array([[3, 1, 3], [2, 1, 0]])
SQUARE = np.array([[[2.0, 1.0], [0.5, -1.0]], [[1.0, 3.0], [0.0, 2.0]]])
MATRICES = np.random.default_rng(1).normal(size=(3, 5, 5))
MATRICES[0, 0, 0] = 0
POSITIVE = MATRICES @ MATRICES.swapaxes(-1, -2) + np.eye(5)
