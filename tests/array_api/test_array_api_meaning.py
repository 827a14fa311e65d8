"""The Array API namespace: dtypes, promotion, inspection, derivatives, linear algebra, errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_api_samples import (
    CUBE,
    DTYPES,
    FLOATS,
    INTEGRAL,
    MATRICES,
    PAIRS,
    POSITIVE,
    REAL,
)

import tensorgrad as tg
from tensorgrad import array_api as xp
from tensorgrad.errors import DTypeError, OptionError, ShapeError, TraceError

untyped: Any = xp
"""The namespace as code without types calls it."""


WIDER_INTEGERS = {
    (first, second): np.promote_types(first, second).name
    for first, second in itertools.combinations(INTEGRAL, 2)
    if np.promote_types(first, second).kind in "iu"
}
"""What the standard promotes two dtypes of integers to, as NumPy does; a signed one and uint64 have nothing."""


def test_promotion() -> None:
    """Within a kind as in the standard; across kinds, booleans become integers, and integers floats."""
    dtypes = {name: getattr(xp, name) for name in DTYPES}
    expected = {
        **{(name, name): name for name in DTYPES},
        **{("bool", name): name for name in DTYPES},
        **{pair: pair[1] for pair in itertools.product(INTEGRAL, REAL)},
        **{pair: pair[1] for pair in itertools.combinations(REAL, 2)},
        **{pair: WIDER_INTEGERS[pair] for pair in itertools.combinations(INTEGRAL, 2) if pair in WIDER_INTEGERS},
    }
    for (first, second), common in expected.items():
        for pair in ((first, second), (second, first)):
            operand_dtypes = [dtypes[name] for name in pair]
            assert xp.result_type(*operand_dtypes) == dtypes[common]
            if common != "bool":
                assert xp.add(*(xp.ones(2, dtype=dtype) for dtype in operand_dtypes)).dtype == dtypes[common]
    for bits in (8, 16, 32, 64):
        with pytest.raises(DTypeError, match=rf"result_type: i{bits} and u64 have no common type; cast one of them"):
            xp.result_type(dtypes[f"int{bits}"], xp.uint64)
    with pytest.raises(OptionError, match="result_type: takes at least one array or dtype"):
        xp.result_type(1, 2.0)
    x = xp.ones(2, dtype=xp.int32)
    assert xp.result_type(x, 1, True) == xp.int32 and xp.result_type(x, 1.0) == xp.float32
    assert xp.result_type(xp.float64, 1.0, 3) == xp.float64 and xp.result_type(xp.bool, 2) == xp.int32
    casts = [(a, b) for a in DTYPES for b in DTYPES if xp.can_cast(dtypes[a], dtypes[b])]
    wider = {pair for pair, common in expected.items() if common == pair[1]}
    wider |= {(a, b) for a, b in itertools.permutations(INTEGRAL, 2) if np.can_cast(a, b)}
    assert set(casts) == wider and ("uint8", "int16") in wider and ("int64", "uint64") not in wider
    assert xp.can_cast(x, xp.int32)


def test_dtypes() -> None:
    for name in ("float16", "float32", "float64"):
        info, expected = xp.finfo(getattr(xp, name)), np.finfo(name)
        for limit in ("bits", "eps", "max", "min", "smallest_normal", "dtype"):
            assert getattr(info, limit) == getattr(expected, limit)
        assert {type(info.eps), type(info.max)} == {float}
    for name in INTEGRAL:
        info, expected = xp.iinfo(xp.zeros(1, dtype=getattr(xp, name))), np.iinfo(name)
        assert (info.bits, info.min, info.max) == (expected.bits, expected.min, expected.max)
        assert info.dtype == np.dtype(name)
    assert xp.finfo(tg.bf16).eps == 2.0**-7 and xp.isdtype(tg.bf16, "real floating")  # which the standard lacks
    with pytest.raises(DTypeError, match="finfo: takes a dtype of floats, not int32"):
        xp.finfo(xp.int32)
    with pytest.raises(DTypeError, match="iinfo: takes a dtype of integers, not float32"):
        xp.iinfo(xp.ones(1))
    kinds = {name: [kind for kind in KINDS if xp.isdtype(getattr(xp, name), kind)] for name in DTYPES}
    assert kinds["bool"] == ["bool"] and kinds["int32"] == ["signed integer", "integral", "numeric"]
    assert kinds["uint32"] == ["unsigned integer", "integral", "numeric"]
    assert kinds["float16"] == kinds["float64"] == ["real floating", "numeric"]
    assert xp.isdtype(xp.int32, xp.int32) and not xp.isdtype(xp.int32, (xp.uint32, "real floating", "bool"))
    with pytest.raises(OptionError, match="isdtype: kind 'float' is not one of bool, signed integer"):
        xp.isdtype(xp.float32, "float")


KINDS = ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric")


def test_inspection() -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() == "host" and info.devices() == ["host", "cpu", "numpy"]
    assert info.default_dtypes() == {"real floating": xp.float32, "integral": xp.int32, "indexing": xp.int32}
    assert info.dtypes() == {name: getattr(xp, name) for name in DTYPES if name != "float16"}
    assert {*info.dtypes(kind=("bool", "integral"))} == {"bool", *INTEGRAL}
    assert xp.asarray([1.5]).dtype == xp.zeros(1).dtype == info.default_dtypes()["real floating"]
    assert xp.asarray([1]).dtype == xp.arange(3).dtype == info.default_dtypes()["integral"]
    assert xp.argmax(xp.ones(3)).dtype == xp.nonzero(xp.ones(3))[0].dtype == info.default_dtypes()["indexing"]
    for call in (info.dtypes, info.default_dtypes, lambda device: xp.zeros(2, device=device)):
        with pytest.raises(OptionError, match="a device must be one of host, cpu, wgpu, numpy, got 'gpu'"):
            call(device="gpu")


def test_arrays_know_their_namespace() -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(OptionError, match=r"version '2021.12' of the Array API standard is not one of 2022.12, "):
        x.__array_namespace__(api_version="2021.12")
    assert x.device == "host" and x.to_device(x.device, stream=None) is x
    with pytest.raises(OptionError, match="a device must be one of host, cpu, wgpu, numpy, got 'cuda'"):
        x.to_device("cuda")
    assert np.array_equal(x.mT, np.asarray(x).T)
    with pytest.raises(ShapeError, match=r"matrix_transpose: takes an array of two axes or more, not \(3,\)"):
        _ = xp.ones(3).mT


@pytest.mark.nightly
def test_code_for_any_library_has_derivatives() -> None:
    def loss(x: Any, w: Any) -> Any:
        namespace = x.__array_namespace__()
        scaled = namespace.matmul(x, w) / namespace.linalg.vector_norm(w, axis=0)
        zeros = namespace.zeros_like(scaled, device=scaled.device)
        return namespace.mean(namespace.logaddexp(scaled, zeros) + namespace.hypot(scaled, zeros + 1.0))

    tg.testing.check_grads(loss, (FLOATS, CUBE[0, :, :2] / 7 + 0.1))
    rows = tg.jit(lambda x: xp.asarray([x[0], x[1] * 2, 3.0]), device="numpy")(np.array([1.0, 5.0], np.float32))
    assert np.array_equal(rows, [1, 10, 3]) and rows.dtype == xp.float32


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["cholesky", "det", "inv", "slogdet", "solve"])
def test_derivatives_of_linear_algebra(name: str) -> None:
    def function(x: Any, y: Any) -> Any:
        result = getattr(xp.linalg, name)(*((x, y) if name == "solve" else (x,)))
        return result.logabsdet if name == "slogdet" else result

    matrices = POSITIVE[:2, :3, :3] if name == "cholesky" else MATRICES[1:, 1:4, 1:4]
    tg.testing.check_grads(function, (matrices, FLOATS[0]), rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_loops_and_steps_as_native_code() -> None:
    narrow = [part.astype(np.float32) for part in (POSITIVE, MATRICES[0], *PAIRS["float"])]

    def function(x: Any, y: Any, z: Any, w: Any) -> Any:
        factor = xp.linalg.cholesky(x)
        slope = tg.grad(lambda x: tg.sum(xp.linalg.inv(x) ** 2))(x)
        return factor, xp.linalg.solve(x, y), xp.linalg.det(x), slope, xp.nextafter(z, w)

    actual, expected = tg.jit(function, device="cpu")(*narrow), function(*map(tg.array, narrow))
    for result, correct in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), np.asarray(correct), rtol=1e-4, atol=1e-5)
    assert np.array_equal(actual[-1], expected[-1], equal_nan=True)


def test_singular_matrices() -> None:
    rows = xp.asarray([[1.0, 2.0], [2.0, 4.0]])
    assert float(xp.linalg.det(rows)) == 0 and np.asarray(xp.linalg.slogdet(rows)).tolist() == [0, -math.inf]
    assert not np.isfinite(np.asarray(xp.linalg.inv(rows))).any()
    assert np.isnan(np.asarray(xp.linalg.cholesky(-xp.eye(2)))).any()
    half = xp.astype(xp.asarray([[300.0, 0.0], [0.0, 300.0]]), xp.float16)
    assert float(xp.linalg.inv(half)[0, 0]) == np.float16(1 / 300) and xp.linalg.inv(half).dtype == xp.float16


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_steps_to_the_next_float(dtype: str) -> None:
    """At every power of two, its neighbours, and the ends of the range, in both directions."""
    limits, zero, infinity = np.finfo(dtype), np.asarray(0, dtype), np.asarray(np.inf, dtype)
    powers = np.ldexp(np.ones((), dtype), np.arange(limits.minexp - limits.nmant, limits.maxexp)).astype(dtype)
    around = np.concatenate([powers, np.nextafter(powers, infinity), np.nextafter(powers, zero)])
    ends = np.array([0.0, -0.0, np.finfo(dtype).max, np.inf], dtype)
    values = np.concatenate([around, -around, ends, -ends])
    for towards in (np.inf, -np.inf, 0.0):
        with np.errstate(all="ignore"):
            expected = np.nextafter(values, np.asarray(towards, dtype))
        actual = np.asarray(xp.nextafter(tg.array(values, dtype), tg.array(towards, dtype)))
        assert actual.dtype == expected.dtype and np.array_equal(actual, expected)


def test_what_cannot_be_is_an_error() -> None:
    x = xp.ones((2, 3))
    calls: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (OptionError, "asarray: copy=False, and list has to be copied", lambda: xp.asarray([1], copy=False)),
        (OptionError, "from_dlpack: copy=False, and float has to be copied", lambda: xp.from_dlpack(1.0, copy=False)),
        (OptionError, "take: axis= is needed for an array of 2 axes", lambda: xp.take(x, xp.asarray([0]))),
        (
            OptionError,
            "matrix_norm: ord 3.0 is not one of fro, nuc, 1",
            lambda: xp.linalg.matrix_norm(x, ord=3.0),
        ),
        (ShapeError, r"matrix_norm: takes an array of two axes", lambda: xp.linalg.matrix_norm(x[0])),
        (ShapeError, r"matrix_power: takes square matrices", lambda: xp.linalg.matrix_power(x, 2)),
        (ShapeError, "det: takes square matrices", lambda: xp.linalg.det(x)),
        (ShapeError, "cholesky: takes square matrices", lambda: xp.linalg.cholesky(x[0])),
        (
            ShapeError,
            r"solve: \(3, 3\) does not fit a right side of shape \(2, 3\)",
            lambda: xp.linalg.solve(xp.eye(3), x),
        ),
        (ShapeError, "cross: axis -1 is of extent 3, not 2 and 2", lambda: xp.linalg.cross(x.mT, x.mT)),
        (ShapeError, r"vecdot: \(2, 3\) and \(3, 2\) differ along axis -1", lambda: xp.vecdot(x, x.mT)),
        (ShapeError, "searchsorted: takes a vector", lambda: xp.searchsorted(x, 1.0)),
        (
            OptionError,
            "searchsorted: side 'both' is not one of left",
            lambda: xp.searchsorted(x[0], 1.0, side="both"),
        ),
        (ShapeError, "diff: n must not be negative, got -1", lambda: xp.diff(x, n=-1)),
        (ShapeError, "nonzero: a tensor without axes has no indices", lambda: xp.nonzero(xp.asarray(1.0))),
        (TypeError, "takes 1 argument by position, got 2", lambda: untyped.sum(x, 0)),
        (TypeError, "abs", lambda: untyped.abs(x=x)),
    ]
    for kind, message, call in calls:
        with pytest.raises(kind, match=message):
            call()


def test_a_mask_without_axes() -> None:
    x = xp.asarray(FLOATS[0])
    for key in (True, False):
        for mask in (xp.asarray(key), np.asarray(key), np.bool_(key)):
            assert np.array_equal(x[mask], np.asarray(x)[np.asarray(mask)]) and x[mask].shape == (int(key), 3)
    assert xp.asarray(2.0)[xp.asarray(True)].shape == (1,)
    for shape in ((), (3,)):
        for key in (True, False):
            for x in (xp.zeros(shape, device="cpu"), xp.zeros((*shape, 0), device="cpu")):
                x[xp.asarray(key)] = 2.0
                assert x.tolist() == (np.zeros(x.shape) + 2 * key).tolist()
    added = xp.asarray([1.0, 2.0]).at[np.bool_(True)].add(3.0)
    assert added.tolist() == [4.0, 5.0] and xp.asarray(1.0).at[np.bool_(False)].set(3.0).tolist() == 1.0


def test_a_mask_without_elements() -> None:
    for extents, covered in (((2, 3), (0, 3)), ((2, 3), (2, 0)), ((0, 1), (0, 0)), ((2, 3), (0,))):
        x, mask = np.zeros(extents, np.float32), np.zeros(covered, np.bool_)
        assert xp.asarray(x)[xp.asarray(mask)].shape == x[mask].shape
    with pytest.raises(IndexError, match=r"a mask of shape \(1, 0\) for the axes of \(2, 3\)"):
        _ = xp.ones((2, 3))[np.zeros((1, 0), np.bool_)]


@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_arrays_are_made_on_the_device_that_is_asked_for(device: str) -> None:
    others = np.array([[1, 2], [3, 4]], np.int64)
    arrays = [
        xp.arange(3, device=device),
        xp.asarray([1.0, 2.0], device=device),
        xp.asarray(others, device=device),
        xp.astype(xp.ones(2), xp.int8, device=device),
        xp.empty(2, device=device),
        xp.eye(2, 3, device=device),
        xp.from_dlpack(others, device=device),
        xp.full((2, 2), 3, device=device),
        xp.linspace(0, 1, 3, device=device),
        xp.ones((2, 3), device=device),
        xp.zeros(3, dtype=xp.uint8, device=device),
        xp.asarray([[1.5]]).to_device(device),
    ]
    assert [x.device for x in arrays] == [device] * len(arrays)
    for x in arrays[:2]:
        assert {f(x).device for f in (xp.zeros_like, xp.ones_like, xp.empty_like, xp.from_dlpack)} == {device}
        assert xp.full_like(x, 2, device="host").device == "host"
        assert xp.asarray(x) is xp.asarray(x, device=device, copy=False) is x.to_device(device) is x
        assert xp.from_dlpack(x, device="host").device == "host" and xp.from_dlpack(x) is not x
    with pytest.raises(OptionError, match=f"asarray: copy=False, and ndarray has to be copied to '{device}'"):
        xp.asarray(others, device=device, copy=False)
    with pytest.raises(OptionError, match="the host"):
        xp.asarray(arrays[0], device="host")


def test_what_is_on_a_device_is_copied_where_that_is_asked_for() -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]], device="cpu")
    copies = [xp.asarray(x, copy=True), xp.astype(x, x.dtype), xp.reshape(x, (4,), copy=True), xp.from_dlpack(x)]
    shared = [xp.asarray(x), xp.astype(x, x.dtype, copy=False), xp.reshape(x, (4,))]
    x[0, 0] = 7.0
    assert [float(xp.reshape(y, (4,))[0]) for y in copies] == [1.0] * 4
    assert [float(xp.reshape(y, (4,))[0]) for y in shared] == [7.0] * 3


def test_a_traced_function_makes_arrays_where_the_program_runs() -> None:
    def function(x: Any) -> Any:
        return x + xp.ones(2, device="cpu") + xp.asarray([1.0, 2.0]).to_device("numpy")

    assert np.asarray(tg.jit(function, device="numpy")(np.zeros(2, np.float32))).tolist() == [2, 3]


def test_numbers_of_python() -> None:
    assert complex(xp.asarray(1.5)) == 1.5 + 0j and isinstance(complex(xp.asarray(2, device="numpy")), complex)
    with pytest.raises(ShapeError, match=r"complex\(\) takes a tensor of one element"):
        complex(xp.ones(2))
    with pytest.raises(TraceError, match=r"complex\(\) needs the numbers of a traced tensor"):
        tg.trace(lambda x: x * abs(complex(x)), ())


def test_capsules_of_dlpack() -> None:
    x = xp.arange(3, device="cpu")
    options: Any
    for options in ({}, {"copy": True}, {"max_version": (1, 0)}, {"copy": False, "max_version": (1, 0)}):
        assert "dltensor" in repr(x.__dlpack__(stream=None, dl_device=(1, 0), **options))
    with pytest.raises(BufferError, match="readonly"):  # before 1.0, DLPack can't say that it is
        x.__dlpack__(copy=False)
