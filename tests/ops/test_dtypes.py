"""Dtypes in the API: names, promotion, conversion of 64-bit arrays, and integers of every width."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from xdsl.context import Context
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.errors import DTypeError, InputError, ShapeError
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.target import CPU, WEBGPU_DEFAULT, Target
from tensorgrad.tracing.dtypes import NAMES, SHORT, as_dtype, promote

INTEGERS = [name for name in NAMES if name[0] in "iu"]
DEVICES = ("numpy", "cpu", "wgpu")


@pytest.mark.parametrize("name", INTEGERS)
def test_names(name: str) -> None:
    dtype = getattr(tg, name)
    assert dtype == np.dtype({"i": "int", "u": "uint"}[name[0]] + name[1:]) == as_dtype(dtype.name) == as_dtype(name)
    assert tg.spec((2, 3), name).dtype == dtype and SHORT[dtype] == name
    assert tg.zeros(2, name).dtype == tg.arange(3, dtype=dtype.name).dtype == dtype


@pytest.mark.parametrize("code", ["i1", "i2", "u1", "u2", "f2"])
def test_codes_that_count_bytes_are_refused(code: str) -> None:
    assert np.dtype(code).itemsize == int(code[1])
    with pytest.raises(
        DTypeError, match=f"'{code}' counts bytes, where i8 has 8 bits; use one of bf16, f16, f32, f64, i8, u8"
    ):
        tg.zeros(2, code)


def test_promotion_of_integers_is_numpys_and_pytorchs() -> None:
    for first, second in itertools.product(INTEGERS, INTEGERS):
        left, right = NAMES[first], NAMES[second]
        expected = np.promote_types(left, right)
        if expected.kind == "f":
            with pytest.raises(DTypeError, match=f"{first} and {second} have no common type; cast one of them"):
                promote(left, right)
            continue
        assert promote(left, right) == expected
        if "u16" not in (first, second) and "u32" not in (first, second) and "u64" not in (first, second):
            kinds = [getattr(torch, dtype.name) for dtype in (left, right, expected)]
            assert torch.promote_types(*kinds[:2]) == kinds[2]
    for integer, floating in itertools.product(INTEGERS, ("f16", "f32", "f64")):
        assert promote(NAMES[integer], NAMES[floating]) == promote(NAMES[floating], NAMES[integer]) == NAMES[floating]


@pytest.mark.parametrize("name", INTEGERS)
def test_python_numbers_have_no_say(name: str) -> None:
    x = tg.array([1, 2, 3], name)
    for result in (x + 1, 2 * x, x // 2, x**2, tg.maximum(x, 1), tg.where(x > 1, x, 0), tg.clip(x, 1, 2), tg.sign(x)):
        assert result.dtype == x.dtype
    assert (x * 0.5).dtype == (x / 2).dtype == tg.mean(x).dtype == tg.f32
    limits = np.iinfo(x.dtype)
    assert np.asarray(x * 0 + int(limits.max)).tolist() == [limits.max] * 3
    with pytest.raises(DTypeError, match=f"outside of {name}"):
        tg.add(x, int(limits.max) + 1)


@pytest.mark.parametrize("name", INTEGERS)
def test_sums_have_32_bits_or_more(name: str) -> None:
    x = np.full(100, 127, NAMES[name])
    wide = NAMES[name] if NAMES[name].itemsize >= 4 else NAMES[name[0] + "32"]
    for function in (tg.sum, tg.prod, tg.cumsum, tg.cumprod):
        sums = function(tg.array(x, name))
        assert sums.dtype == wide
        same = function(tg.array(x, name), dtype=name)
        assert same.dtype == NAMES[name]
        with np.errstate(over="ignore"):
            assert np.array_equal(sums, getattr(np, function.__name__)(x, dtype=wide))
            assert np.array_equal(same, getattr(np, function.__name__)(x, dtype=x.dtype))


def test_arrays_of_64_bits_become_those_of_32_unless_asked_for() -> None:
    x = np.array([1, -2, 2**31 - 1])
    assert tg.array(x).dtype == (tg.array([1]) + x[:1]).dtype == tg.i32
    assert tg.array(x.astype(np.uint64)[:1]).dtype == tg.u32
    assert tg.array(x, "i64").dtype == tg.i64 and np.array_equal(tg.array(x, "i64"), x)
    assert tg.array(x.astype(np.int8)).dtype == tg.i8
    for large in (2**31, np.array([2**31]), np.array([2**63], np.uint64)):
        with pytest.raises(DTypeError, match=r"outside of [iu]32; tg.array\(x, '[iu]64'\) keeps 64 bits"):
            tg.array(large)
    assert int(tg.array(2**63, "u64")) == 2**63 and int(tg.array(-(2**63), "i64")) == -(2**63)


@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_labels_of_pytorch_and_numpy(device: Any) -> None:
    """Those are i64, and are accepted for i32 and for i64 inputs."""
    labels = torch.tensor([2, 0, 1, 2])
    logits = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    expected = torch.nn.functional.cross_entropy(torch.from_numpy(logits), labels).item()
    for dtype in ("i32", "i64", "u8", "i8", "u64"):
        training = tg.compile(
            tg.nn.Linear(3, 3, bias=False, init=np.eye(3, dtype=np.float32)),
            loss=lambda model, x, y: tg.cross_entropy(model(x), y),
            optimizer=tg.optim.sgd(0.0),
            inputs={"x": (4, 3), "y": tg.spec(4, dtype)},
            device=device,
        )
        for some_labels in (labels, labels.numpy(), labels.tolist(), labels.to(torch.uint8)):
            assert float(training.step(x=logits, y=some_labels)) == pytest.approx(expected, rel=1e-5)
        with pytest.raises(InputError, match=f"input 'y' is float64, which does not convert to {dtype}"):
            training.step(x=logits, y=np.array([1.0, 0.0, 2.0, 1.0]))


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", INTEGERS)
def test_indices_of_every_width(device: Any, name: str) -> None:
    x = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    indices = np.array([0, 3, 127, 1], NAMES[name])
    negative = indices if name[0] == "u" else -indices
    results = tg.jit(
        lambda x, i, j: (
            x[j],
            tg.take(x, i, 0),
            tg.one_hot(i, 200),
            tg.embedding(x, i),
            x.at[i].add(1.0),
            tg.gather(x, 0, tg.reshape(i, (4, 1))),
        ),
        device=device,
    )(x, tg.array(indices, name), tg.array(negative, name))
    places, back = indices.astype(np.int64), negative.astype(np.int64)
    added = x.copy()
    added[places] += 1
    expected = (x[back], x[places], np.eye(200, dtype=np.float32)[places], x[places], added, x[places, :1])
    for result, correct in zip(results, expected, strict=True):
        assert np.array_equal(result, correct)
    with pytest.raises(ShapeError, match="index 127 is out of range"):
        tg.take(x[:100], tg.array(indices, name))


def test_an_index_beyond_32_bits_is_out_of_range() -> None:
    """It does not wrap around."""
    far = tg.array([2**32 + 1, 1, -(2**32)], "i64")
    for device in DEVICES:
        results = tg.jit(lambda x, i: (tg.take(x, i), tg.zeros(3).at[i].add(1.0)), device=device)(np.ones(3), far)
        assert np.array_equal(results[0], [np.nan, 1, np.nan], equal_nan=True)
        assert np.array_equal(results[1], [0, 1, 0])


@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_state_of_every_width_is_kept(device: Any, tmp_path: Path) -> None:
    """Buffers wrap, are read in their own dtype, and are preserved by checkpoints and files."""

    class Counting(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = tg.nn.param((2,), init=1.0)
            for name in INTEGERS:
                setattr(
                    self,
                    name,
                    tg.nn.buffer((3,), init=np.array([0, 1, np.iinfo(NAMES[name]).max], NAMES[name]), dtype=name),
                )

    def loss(model: Counting, x: Any) -> Any:
        for name in INTEGERS:
            held: Any = getattr(model, name)
            held.assign(held + 3)
        return tg.sum(model.weight * x), {name: getattr(model, name) + 0 for name in INTEGERS}

    def compiled(seed: int) -> tg.Training:
        options: Any = {"optimizer": tg.optim.sgd(0.1), "inputs": {"x": (2,)}, "device": device, "seed": seed}
        return tg.compile(Counting(), loss=loss, **options)

    def expected(steps: int) -> dict[str, np.ndarray]:
        with np.errstate(over="ignore"):
            starts = {name: np.array([0, 1, np.iinfo(NAMES[name]).max], NAMES[name]) for name in INTEGERS}
            return {name: start + start.dtype.type(3 * steps) for name, start in starts.items()}

    def check(held: Any, steps: int) -> None:
        for name, correct in expected(steps).items():
            assert np.asarray(held[name]).dtype == correct.dtype and np.array_equal(held[name], correct)

    first, x = compiled(0), np.ones(2, np.float32)
    check(first.step(x=x)[1], 1)
    check(first.buffers(), 1)
    first.save_checkpoint(tmp_path / "checkpoint")
    first.save(tmp_path / "program.tg", target="cpu" if device == "cpu" else "lavapipe")
    other = compiled(1)
    other.load_checkpoint(tmp_path / "checkpoint")
    check(other.buffers(), 1)
    loaded = tg.load(tmp_path / "program.tg", device="cpu" if device == "cpu" else "wgpu")
    assert isinstance(loaded, tg.LoadedTraining)
    check(loaded.step(x=x)[1], 2)
    loaded.save(tmp_path / "later.tg")
    other.load_checkpoint(tmp_path / "later.tg")
    check(other.buffers(), 2)


def program_of(function: Any, specs: list[Any], target: Target) -> Program:
    module = tg.trace(function, *specs)
    for pass_ in inference_passes(target):
        pass_.apply(Context(), module)
    return build_program(module, target)


@pytest.mark.parametrize("name", INTEGERS)
def test_bytes_on_devices(name: str) -> None:
    """Native code stores elements in their own size, shaders in words; 64 bits take two words."""
    size = NAMES[name].itemsize
    for target, expected in ((CPU, size), (Target.named("lavapipe"), max(size, 4))):
        program = program_of(lambda x: x + x, [tg.spec(1000, name)], target)
        assert [slot.size for slot in program.tensors] == [1000 * expected] * 2
        assert [slot.dtype for slot in program.tensors] == [name] * 2
        assert program.statistics["bytes_moved"] == 2 * 1000 * expected
        narrow = size < 4 and not target.native
        assert [slot.stored for slot in program.tensors] == [name[0] + "32" if narrow else None] * 2
        assert program.target is not None and program.target.int64 == (size == 8 and not target.native)


def test_64_bits_are_refused_by_name_where_a_device_has_none() -> None:
    """The error names the tensor, and the line that created it, as for f64."""

    def inside(x: Any) -> Any:
        return tg.cast(tg.cast(x, "i64") * 3, "i32")

    lacks = "which webgpu-default does not have; it was made at "
    for function, spec, message, remedy in (
        (lambda x: x + x, tg.spec(3, "i64"), f"'x' has elements of i64, {lacks}", "cast it to i32 "),
        (lambda x: x + x, tg.spec(3, "u64"), f"'x' has elements of u64, {lacks}", "cast it to u32"),
        (inside, tg.spec(3, "i32"), f"arith.extsi returns i64, {lacks}", "compute in i32 "),
    ):
        with pytest.raises(DiagnosticException, match=message) as raised:
            program_of(function, [spec], WEBGPU_DEFAULT)
        assert remedy in str(raised.value)
        line = function.__code__.co_firstlineno + (function is inside)
        assert re.search(rf"made at \S*test_dtypes\.py:{line};", str(raised.value))
    training = tg.compile(
        tg.nn.Linear(3, 1),
        loss=lambda model, x, y: tg.mean(model(x) * tg.cast(y, "f32")),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 3), "y": tg.spec((4, 1), "i64")},
        device="numpy",
    )
    with pytest.raises(ProgramError, match="'y' has elements of i64, which webgpu-default does not have"):
        training.program_for("webgpu-default")


@pytest.mark.parametrize("device", DEVICES)
def test_jit_narrows_64_bits_on_every_device(device: Any) -> None:
    double = tg.jit(lambda x: x * 2, device=device)
    assert [double(np.arange(3, dtype=kind)).dtype.name for kind in (np.int64, np.uint64)] == ["int32", "uint32"]
    with pytest.raises(DTypeError, match="outside of i32"):
        double(np.array([2**40]))


def test_numbers_have_to_fit_narrow_tensors() -> None:
    x, mask = tg.array([1, 2], "i8"), np.array([True, False])
    for call in (
        lambda: tg.masked_fill(x, mask, 300),
        lambda: tg.pad(x, 1, constant_values=300),
        lambda: tg.scatter(x, 0, [0], 300),
        lambda: tg.scatter_add(x, 0, [0], [300]),
        lambda: tg.scatter_reduce(x, 0, [0], [300], "sum"),
        lambda: tg.array(tg.array([300.0, 1.0]), "i8"),
        lambda: tg.array(tg.array([np.nan]), "i32"),
    ):
        with pytest.raises(DTypeError):
            call()
    assert tg.masked_fill(tg.array([1, 2], "i64"), mask, 2**40).tolist() == [2**40, 2]
    assert tg.pad(tg.array([1], "i64"), 1, constant_values=-(2**40)).tolist() == [-(2**40), 1, -(2**40)]


def test_lists_of_large_unsigned_integers_are_exact() -> None:
    assert tg.array([1, 2**63 + 1025, 2**64 - 1], "u64").tolist() == [1, 2**63 + 1025, 2**64 - 1]
    with pytest.raises(DTypeError):
        tg.array([-1, 2**63], "u64")


@pytest.mark.parametrize("name", ["i8", "u8", "i16", "u16", "i32", "i64"])
def test_integers_of_few_bits_are_counted_and_divided_as_numpy_does(name: str) -> None:
    dtype = NAMES[name]
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, 7, 0, 100], dtype)
    for divisor in (-7 if dtype.kind == "i" else 7, 3, limits.max, limits.min or 1):
        y = np.full(5, divisor, dtype)
        assert tg.fmod(tg.array(x, name), tg.array(y, name)).tolist() == np.fmod(x, y).tolist()
    first = np.array([1, 2, 3], dtype)
    assert tg.einsum("i,j->j", tg.array(first, name), tg.array(first, name)).tolist() == [6, 12, 18]
    assert tg.einsum("ij->i", tg.array([[1, 2]], name)).dtype == dtype
    many = tg.array(np.full(256, 7), name)
    mean = tg.scatter_reduce(tg.zeros(1, name), 0, np.zeros(256, np.int32), many, "mean", include_self=False)
    assert (mean.tolist(), mean.dtype) == ([7], dtype)
    assert tg.bincount(tg.array([1, 1, 5], name), 300).tolist() == np.bincount([1, 1, 5], minlength=300).tolist()


def test_losses_of_integers_do_not_wrap() -> None:
    small, large = tg.array([1], "u8"), tg.array([200], "u8")
    assert (float(tg.l1(small, large)), float(tg.mse(small, large))) == (199.0, 199.0**2)


def test_isin_takes_integers_of_any_width_and_sign() -> None:
    large = 2**63
    x = tg.array([3, large, 2**64 - 1], "u64")
    assert tg.isin(x, [3, 4]).tolist() == [True, False, False]
    assert tg.isin(x, [-1, 3]).tolist() == tg.isin(x, tg.array([-1, 3], "i64")).tolist() == [True, False, False]
    assert tg.isin(x, [3, large], invert=True).tolist() == [False, False, True]
    signed = tg.array([-1, 3], "i64")
    assert tg.isin(signed, x).tolist() == [False, True] and tg.isin(signed, [2**40]).tolist() == [False, False]
    assert tg.isin(tg.array([44], "i8"), [300]).tolist() == [False]


def test_a_number_with_a_fraction_is_searched_for_as_such() -> None:
    assert int(tg.searchsorted(tg.array([1, 2]), 1.5)) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_places_beyond_32_bits_are_dropped(device: Any) -> None:
    unpool = tg.jit(lambda x, at: tg.max_unpool(x, at, 2), device=device)
    at = tg.array([[[[2**32 + 1]]]], "i64")
    assert not np.any(np.asarray(unpool(np.ones((1, 1, 1, 1), np.float32), at)))


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_numbers_of_64_bits_stay_so_beside_such_a_tensor(device: tg.DeviceName) -> None:
    values, third = np.array([1.0, 2.0, 1 / 3]), np.float64(1) / 3
    x = tg.tensor(values, "f64", device=device)
    for actual, expected in (
        (x * third, values * third),
        (third - x, third - values),
        (x + values, values + values),
        (values / x, values / values),
        (x + list(values), values + values),
        (x**third, values**third),
        (tg.where(x > 0.5, x, third), np.where(values > 0.5, values, third)),
        (tg.clip(x, 0, third), np.clip(values, 0, third)),
        (tg.maximum(x, values * 2), values * 2),
        (x @ values, values @ values),
        (tg.concat([x, values]), np.concatenate([values, values])),
        (tg.stack([values, x]), np.stack([values, values])),
        (tg.jit(lambda x: x * third, device=device)(x), values * third),
    ):
        np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-15)
    large = tg.tensor([2**40], "i64", device=device) + np.array([2**41])
    assert large.tolist() == [2**40 + 2**41]
    assert (tg.tensor([1.0], device=device) * third).dtype == np.float32


@pytest.mark.usefixtures("device")
def test_a_dtype_inside_of_one_of_several_kernels_of_a_dispatch_is_named() -> None:
    def function(x: Any, y: Any) -> Any:
        return x + 1, tg.cast(tg.cast(y, "f64") * 0.1, "f32")

    for x, y in ((3, 1000), (1000, 3)):
        with pytest.raises(ProgramError, match=r"returns f64, which .* does not have; it was made at .*compute in f32"):
            tg.jit(function, device="wgpu")(np.ones(x, np.float32), np.ones(y, np.float32))
