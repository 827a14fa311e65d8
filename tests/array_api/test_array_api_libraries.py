"""Array-agnostic functions of other libraries on tensorgrad's arrays.

SciPy reads its environment variable on import, and scikit-learn depends on it, so each runs in a separate process.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any

import einops.array_api
import numpy as np
import pytest

import tensorgrad as tg

SETUP = """
import numpy as np, tensorgrad as tg
values = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
x, positive = tg.array(values), tg.array(abs(values) + 1)

def check(function, *arrays, **options):
    found, expected = function(*arrays, **options), function(*map(np.asarray, arrays), **options)
    parts = [(found, expected)] if not isinstance(expected, tuple) else zip(found, expected, strict=True)
    for one, wanted in parts:
        kind = tg.Array if isinstance(wanted, np.ndarray | np.generic) else float
        assert isinstance(one, kind), (function, type(one))
        np.testing.assert_allclose(np.asarray(one), wanted, rtol=2e-5, atol=1e-6, err_msg=str(function))

def assigns(function, *arrays):
    # It works on tensors that live on a device, and not on arrays of the host, to whose elements it assigns.
    assert "a tensor can't be changed" in refused(function, *arrays)
    check(function, *(tg.tensor(one, device="cpu") for one in arrays))

def refused(function, *arrays):
    try:
        function(*arrays)
    except (tg.errors.TraceError, tg.errors.UnknownNameError) as error:
        return str(error)
    raise AssertionError(f"{function} works by now: say so in docs/reference/array-api.md")
"""

SCIPY = """
from scipy import cluster, integrate, optimize, signal, special, stats
from scipy.spatial.transform import Rotation

for function in (special.expit, special.erf, special.gammaln, special.entr, special.ndtr, special.softmax):
    check(function, x if function is not special.entr else positive)
for function in (stats.skew, stats.kurtosis, stats.sem, stats.gmean, stats.hmean, stats.entropy, stats.jarque_bera):
    check(function, positive, axis=0)
check(stats.moment, x, order=3)
check(integrate.trapezoid, x, axis=0)
check(integrate.cumulative_trapezoid, x, axis=0)
check(signal.detrend, x, axis=0)
check(optimize.rosen, x[0])
check(cluster.vq.vq, x, x[:3])
check(lambda rows: Rotation.from_rotvec(rows).as_matrix(), x[:, :3])

slope = tg.grad(lambda x: tg.sum(special.softmax(x, axis=1)[:, 0]))(x)
expected = tg.grad(lambda x: tg.sum(tg.softmax(x, 1)[:, 0]))(x)
np.testing.assert_allclose(slope, expected, atol=1e-6)
np.testing.assert_allclose(tg.grad(optimize.rosen)(x[0]), optimize.rosen_der(values[0]), rtol=1e-4)

for function in (special.logsumexp, special.log_softmax, stats.zscore, stats.iqr):
    assigns(function, x)
check(lambda x: stats.describe(x)[2:], x)
check(special.softmax, tg.tensor(x, device="cpu"), axis=1)
"""

SCIKIT_LEARN = """
import sklearn
from sklearn import decomposition, linear_model, metrics, preprocessing

labels = tg.array((values[:, 0] > 0).astype(np.int32))
others = tg.array((values[:, 1] > 0).astype(np.int32))
with sklearn.config_context(array_api_dispatch=True):
    for function in (metrics.mean_squared_error, metrics.mean_absolute_error):
        check(function, x[:, 0], x[:, 1])
    for function in (metrics.accuracy_score, metrics.zero_one_loss):
        check(function, labels, others)
    check(metrics.pairwise.linear_kernel, x, x[:5])
    check(lambda kernel: preprocessing.KernelCenterer().fit_transform(kernel), x @ x.T)
    check(lambda classes: preprocessing.LabelEncoder().fit_transform(classes), labels + 3)
    for scaler in (preprocessing.MinMaxScaler, preprocessing.MaxAbsScaler, preprocessing.StandardScaler):
        assigns(lambda x: scaler().fit_transform(x), x)
    check(lambda x: decomposition.PCA(2, svd_solver="full").fit_transform(x), x)
    check(lambda x: decomposition.PCA(2, svd_solver="full").fit(x).explained_variance_, x)
    assigns(lambda x: decomposition.PCA(2, svd_solver="covariance_eigh").fit_transform(x) ** 2, x)
    assigns(lambda x, y: linear_model.Ridge(solver="svd").fit(x, y).predict(x), x, x[:, 0])
"""


@pytest.mark.nightly
@pytest.mark.parametrize("program", [SCIPY, SCIKIT_LEARN], ids=["scipy", "scikit-learn"])
def test_functions_for_any_library(program: str, python: str) -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([python, "-c", SETUP + program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_einops() -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)

    def function(x: Any) -> Any:
        parts = einops.array_api.rearrange(x, "(a b) (c d) -> a c (b d)", a=2, d=2)
        means = einops.array_api.reduce(parts, "a c e -> a c", "mean")
        return einops.array_api.repeat(means, "a c -> a c n", n=3)

    expected = values.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3).reshape(2, 3, 4).mean(2)[..., None].repeat(3, 2)
    for actual in (function(tg.array(values)), tg.jit(function, device="numpy")(values)):
        assert isinstance(actual, tg.Array) and np.array_equal(actual, expected)
    slope = tg.grad(lambda x: tg.sum(function(x) ** 2))(values)
    step = np.zeros_like(values)
    step[1, 2] = 1
    difference = (function(tg.array(values + step)) ** 2 - function(tg.array(values - step)) ** 2).sum() / 2
    np.testing.assert_allclose(slope[1, 2], float(difference), rtol=1e-5)
