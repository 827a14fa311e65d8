"""Parameters in files: as f16, or as int8 with scales, and f32 again when they are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError
from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.files import read_safetensors, write_safetensors
from tensorgrad.runtime.weights import WEIGHTS, packed, unpacked
from tensorgrad.tools.tg import command_line

pytestmark = pytest.mark.usefixtures("kept_programs")

GENERATOR = generator(0)
MATRIX = (GENERATOR.normal(size=(24, 40)) * np.geomspace(0.01, 10, 40)).astype(np.float32)
"""Columns of very different sizes."""


def stored(value: np.ndarray, weights: str) -> tuple[np.ndarray, np.ndarray | None]:
    tensors = packed({"parameter/w": value}, weights)
    return tensors["parameter/w"], tensors.get("scale/w")


@pytest.mark.parametrize("value", [MATRIX, MATRIX.T, MATRIX.reshape(4, 6, 40)])
def test_int8_is_within_half_a_scale_along_the_best_axis(value: np.ndarray) -> None:
    integers, scale = stored(value, "int8")
    assert integers.dtype == np.int8 and scale is not None and scale.dtype == np.float32
    axis = value.shape.index(40)
    assert scale.shape == tuple(40 if one == axis else 1 for one in range(value.ndim))
    assert (np.abs(unpacked(integers, scale) - value) <= 0.5001 * scale).all()


@pytest.mark.parametrize("value", [0 * MATRIX, (1e-40 * MATRIX).astype(np.float32)])
def test_what_is_almost_zero_is_stored_as_zero(value: np.ndarray) -> None:
    assert not unpacked(*stored(value, "int8")).any()


def test_large_values_do_not_overflow() -> None:
    value = np.linspace(-3.4e38, 3.4e38, 64, dtype=np.float32).reshape(8, 8)
    integers, scale = stored(value, "int8")
    assert scale is not None and (np.abs(unpacked(integers, scale) - value) <= 0.5001 * scale).all()
    assert np.isinf(unpacked(integers, np.full_like(scale, 3.4e38))).any()


def test_f16_is_rounded_to_the_nearest() -> None:
    half, scale = stored(MATRIX, "f16")
    assert half.dtype == np.float16 and scale is None
    restored = unpacked(half, scale)
    assert restored.dtype == np.float32
    np.testing.assert_allclose(restored, MATRIX, rtol=2**-11, atol=2**-25)


def test_what_is_small_or_no_matrix_of_floats_is_stored_as_it_is() -> None:
    as_they_are = {
        "parameter/bias": MATRIX[0],
        "parameter/thin": MATRIX[:2, :3],
        "parameter/empty": MATRIX[:0],
        "parameter/table": np.arange(64, dtype=np.int32).reshape(8, 8),
        "state/mean": MATRIX,
        "constant/c": np.zeros(4, np.uint8),
    }
    for key, value in packed(as_they_are, "int8").items():
        np.testing.assert_array_equal(value, as_they_are[key])
        assert value.dtype == as_they_are[key].dtype
    assert packed(as_they_are, "f32") == as_they_are


@pytest.mark.parametrize(
    ("value", "weights", "message"),
    [
        (np.inf, "int8", r"weights='int8': parameter 'w' has values that are not finite"),
        (np.nan, "f16", r"weights='f16': parameter 'w' has values that are not finite"),
        (1e5, "f16", r"weights='f16': parameter 'w' has values beyond 65504, the largest of f16"),
    ],
)
def test_what_cannot_be_stored_is_refused(value: float, weights: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        packed({"parameter/w": np.full((16, 16), value, np.float32)}, weights)


def saved(path: Path, weights: str) -> tg.Inference:
    """Saves a function of a model with a large layer; returns it."""
    training = tg.compile(
        tg.nn.Sequential(tg.nn.Linear(64, 128), tg.nn.ReLU(), tg.nn.Linear(128, 10)),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 64)},
        device="cpu",
    )
    predict = training.attach(lambda model, x: model(x), inputs={"x": (4, 64)})
    predict.save(path, weights=weights)
    return predict


@pytest.mark.parametrize(("weights", "bytes_each", "most"), [("f16", 2, 2e-3), ("int8", 1, 3e-2)])
def test_a_function_is_saved_and_loaded(tmp_path: Path, weights: str, bytes_each: int, most: float) -> None:
    predict = saved(tmp_path / "small.tg", weights)
    predict.save(tmp_path / "exact.tg")
    _, tensors = read_safetensors(tmp_path / "small.tg", ProgramError)
    matrices = [value for value in tensors.values() if value.ndim == 2 and value.dtype != np.float32]
    assert sum(value.nbytes for value in matrices) == bytes_each * (64 * 128 + 128 * 10)
    saving = (tmp_path / "exact.tg").stat().st_size - (tmp_path / "small.tg").stat().st_size
    assert saving > (4 - bytes_each) * (64 * 128 + 128 * 10) - 1500
    x = GENERATOR.normal(size=(4, 64)).astype(np.float32)
    loaded = tg.load(tmp_path / "small.tg", device="cpu")
    assert isinstance(loaded, tg.LoadedFunction)
    differences = np.abs(np.asarray(loaded(x=x)) - np.asarray(predict(x=x)))
    assert 0 < differences.max() < most


def test_bad_weights_and_scales_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"save: weights must be one of f32, f16, int8, got 'int4'"):
        saved(tmp_path / "f.tg", "int4")
    assert not (tmp_path / "f.tg").exists()
    saved(tmp_path / "f.tg", "int8")
    metadata, tensors = read_safetensors(tmp_path / "f.tg", ProgramError)
    name = next(key for key in tensors if key.startswith("scale/"))
    for scale in (np.ones((64, 128), np.float32), np.ones((1, 3), np.float32), np.ones((1, 128)), np.ones(128)):
        write_safetensors(tmp_path / "f.tg", {**tensors, name: scale}, metadata)
        with pytest.raises(ProgramError, match=r"scales are f32 of one axis of int8 values, got"):
            tg.load(tmp_path / "f.tg", device="cpu")


def test_the_command_has_the_same_weights() -> None:
    for weights in WEIGHTS:
        assert command_line().parse_args(["export", "web", "f.tg", "page", "--weights", weights]).weights == weights
