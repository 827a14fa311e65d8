"""Eager tensors: recording and execution, in-place changes, views, and conversion to other libraries."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.driver.handles.eager_devices import eager_device_named, new_eager_device
from tensorgrad.eager.devices import LONGEST, RecordingDevice
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.runtime.cpu import CpuDevice
from tensorgrad.surface.calls import public

DEVICES: tuple[tg.DeviceName, ...] = ("numpy", "cpu", "wgpu")


@pytest.fixture(params=DEVICES)
def place(request: pytest.FixtureRequest) -> Any:
    """Each device that tensors live on."""
    return request.param


def tensor(values: Any, place: tg.DeviceName, **options: Any) -> Any:
    return tg.tensor(values, device=place, **options)


@pytest.fixture
def eager_device() -> RecordingDevice:
    """A device with an empty cache, which never interprets."""
    return new_eager_device("cpu", CpuDevice(), 1)


def test_a_tensor_says_where_it_lives(place: tg.DeviceName) -> None:
    x = tensor([1.0, 2.0], place)
    assert (x.device, x.is_leaf, x.requires_grad, x.grad) == (place, True, False, None)
    assert (x + 1).device == place
    assert repr(tensor([1.0], place, requires_grad=True)) == (
        f"Array([1.], dtype=f32, device='{place}', requires_grad=True)"
    )
    assert tg.array([1.0]).device == "host"


def test_dtypes(place: tg.DeviceName) -> None:
    for dtype, values in (("i32", [1, 2]), ("u32", [1, 2]), ("bool", [True, False]), ("f16", [1.0, 2.0])):
        x = tensor(values, place, dtype=dtype)
        assert str(x.dtype) == str(tg.array(values, dtype).dtype)
        assert x.tolist() == values
        assert (x == x).tolist() == [True, True]


def test_a_device_without_a_dtype_says_so() -> None:
    with pytest.raises(tg.errors.DTypeError, match="tensor: wgpu has no f64"):
        tensor([1.0], "wgpu", dtype="f64")
    x = tensor([1.0], "wgpu")
    with pytest.raises(tg.errors.DTypeError, match="cast: wgpu has no f64"):
        x.astype("f64")
    assert tensor([1.5], "cpu", dtype="f64").astype("f32").tolist() == [1.5]


def test_arrays_of_the_host_go_along_and_devices_do_not_mix() -> None:
    x = tensor([1.0, 2.0], "cpu")
    assert (tg.array([3.0, 4.0]) + x + np.array([1.0, 1.0])).tolist() == [5.0, 7.0]
    with pytest.raises(tg.errors.ArgumentError, match="a tensor on numpy is used together with one on cpu"):
        _ = x + tensor([1.0, 2.0], "numpy")
    assert (x + tg.tensor(tensor([1.0, 2.0], "numpy"), device="cpu")).tolist() == [2.0, 4.0]


def test_a_copy_is_taken_of_numbers(place: tg.DeviceName) -> None:
    numbers = np.array([1.0, 2.0], np.float32)
    x = tensor(numbers, place)
    y = x * 2
    numbers[0] = 9.0
    assert y.tolist() == [2.0, 4.0]


def test_a_loop_of_the_same_ops_compiles_once(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.linspace(0, 1, 8, dtype=np.float32))
    for _ in range(5):
        x = tg.sin(x) * 0.5 + 0.25
        assert np.isfinite(x.numpy()).all()
    assert (eager_device.flushes, sum(program.compilations for program in eager_device.programs)) == (5, 1)


@pytest.mark.nightly
def test_a_thousand_small_ops_are_few_programs(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.ones(4, np.float32))
    for _ in range(3 * LONGEST):
        x = x * 0.999 + 0.001
    assert np.allclose(x.numpy(), 1.0, atol=1e-4)
    # Two constants, a product and a sum each time; the first block, those that are a multiple of it, and the rest.
    assert eager_device.flushes <= 4 * 3 + 1
    assert sum(program.compilations for program in eager_device.programs) <= 3


@pytest.mark.nightly
def test_a_block_that_is_cut_is_followed_by_blocks_like_it(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.ones(4, np.float32))
    for _ in range(LONGEST):
        x = tg.sin(x) * 0.5 + x * 0.25 + 0.1  # not a divisor of the longest block
    before = sum(program.compilations for program in eager_device.programs)
    for _ in range(LONGEST):
        x = tg.sin(x) * 0.5 + x * 0.25 + 0.1
    assert sum(program.compilations for program in eager_device.programs) == before


def test_a_number_that_changes_compiles_once_more(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.ones(3, np.float32))
    for rate in (0.1, 0.2, 0.3, 0.4):
        assert (x * rate * 2.0).numpy()[0] == np.float32(np.float32(1) * np.float32(rate)) * np.float32(2)
    (program,) = eager_device.programs
    assert program.compilations == 2


def test_the_cpu_compiles_what_comes_again() -> None:
    eager_device = new_eager_device("cpu", CpuDevice(), 2)
    x = eager_device.made(np.ones(3, np.float32))
    for count in (0, 1, 1):
        assert (x + 1.0).tolist() == [2.0, 2.0, 2.0]
        assert eager_device.programs[0].compilations == count


def test_what_nobody_looks_at_is_not_computed(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.ones(3, np.float32))
    y = x + 1.0
    for _ in range(10):
        y = x * 3.0
    del y
    eager_device.flush()
    assert (eager_device.flushes, len(eager_device.programs)) == (0, 0)


def test_everything_alive_is_computed_at_once(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.ones(3, np.float32))
    y, z = x + 1.0, x * 3.0
    assert y.tolist() == [2.0, 2.0, 2.0]
    assert z.tolist() == [3.0, 3.0, 3.0]
    assert eager_device.flushes == 1


def test_an_error_of_the_device_comes_to_who_looks(
    eager_device: RecordingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(module: object) -> Any:
        raise tg.errors.DeviceError("there is no memory left")

    x = eager_device.made(np.ones(3, np.float32))
    with monkeypatch.context() as patch:
        patch.setattr(eager_device, "_load", fails)
        y = x + 1.0
        with pytest.raises(tg.errors.DeviceError, match="no memory left"):
            y.numpy()
        with pytest.raises(tg.errors.DeviceError, match="no memory left"):
            y.numpy()
    assert (x * 2.0).tolist() == [2.0, 2.0, 2.0]


def test_what_fails_takes_nothing_along(place: tg.DeviceName) -> None:
    x = tensor([1.0, 2.0], place)
    y = x + 1.0
    with pytest.raises(tg.errors.TensorgradError):
        (tg.broadcast_to(x[:1], (10**6, 10**7)) * 2.0).numpy()
    assert y.tolist() == [2.0, 3.0]


def test_a_program_that_fails_to_compile_fails_each_time() -> None:
    def fails(module: object) -> Any:
        raise tg.errors.CompilerError("a pass crashed")

    eager_device = RecordingDevice("cpu", fails, 2)
    x = eager_device.made(np.ones(3, np.float32))
    assert (x + 1.0).tolist() == [2.0, 2.0, 2.0]  # which is interpreted
    for _ in range(2):
        with pytest.raises(tg.errors.CompilerError):
            (x + 1.0).numpy()


def test_arrays_that_change_are_no_other_program() -> None:
    """A function is differentiated with a different captured batch each time."""
    eager_device = new_eager_device("cpu", CpuDevice(), 1)
    w = eager_device.made(np.ones(32, np.float32))

    def loss_on(batch: np.ndarray) -> Any:
        held = tg.array(batch)
        return lambda w: (w * w * held).sum()

    for seed in range(4):
        batch = np.random.default_rng(seed).normal(size=32).astype(np.float32)
        gradient = tg.grad(loss_on(batch))(w)
        np.testing.assert_allclose(np.asarray(gradient), 2 * batch, rtol=1e-6)
    assert [program.compilations for program in eager_device.programs] == [1]


def test_views_keep_what_they_were_made_by(place: tg.DeviceName) -> None:
    x = tensor(np.arange(6.0), place)
    shape, first = [2, 3], tensor(1, place)
    view, rest = x.reshape(shape), x[first:]
    shape[:] = [3, 2]
    first += 2
    x += 1
    assert (view.shape, view.tolist(), rest.shape) == ((2, 3), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], (5,))
    assert rest.tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]
    whole = x[:]
    assert whole is not x
    whole.zero_()
    assert x.tolist() == [0.0] * 6


def test_changes_inside_a_trace_are_refused(place: tg.DeviceName) -> None:
    x = tensor([1.0, 2.0], place)
    with pytest.raises(tg.errors.TraceError, match=r"add_: a tensor on \w+ is changed in place inside"):
        tg.jit(lambda y: x.add_(1) + y, device="numpy")(np.ones(2, np.float32))
    assert x.tolist() == [1.0, 2.0]


def test_an_interrupted_block_is_not_lost(eager_device: RecordingDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(module: object) -> Any:
        raise KeyboardInterrupt

    y = eager_device.made(np.ones(3, np.float32)) + 1.0
    with monkeypatch.context() as patch:
        patch.setattr(eager_device, "_load", interrupted)
        with pytest.raises(KeyboardInterrupt):
            y.numpy()
    eager_device._programs.clear()
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_changes_in_place(place: tg.DeviceName) -> None:
    x = tensor([1.0, 2.0, 3.0], place)
    same = x
    x += 1
    x.mul_(2).sub_(1).div_(2.0)
    assert x is same
    assert x.tolist() == [1.5, 2.5, 3.5]
    x.add_(tensor([1.0, 1.0, 1.0], place), alpha=2)
    x -= 0.5
    x *= 2
    x /= 4
    x **= 2
    assert x.tolist() == [2.25, 4.0, 6.25]
    x //= 2
    x %= 2
    assert x.tolist() == [1.0, 0.0, 1.0]
    assert x.clamp_(0.25, 0.5).tolist() == [0.5, 0.25, 0.5]
    assert x.pow_(2).tolist() == [0.25, 0.0625, 0.25]
    assert x.fill_(7).tolist() == [7.0, 7.0, 7.0]
    assert x.copy_([1, 2, 3]).tolist() == [1.0, 2.0, 3.0]
    assert x.zero_().tolist() == [0.0, 0.0, 0.0]


def test_bits_change_in_place(place: tg.DeviceName) -> None:
    x = tensor([12, 10], place)
    same = x
    x &= 6
    x |= 8
    x ^= 1
    x <<= 2
    x >>= 1
    assert x is same
    assert x.tolist() == [((12 & 6 | 8) ^ 1) * 2, ((10 & 6 | 8) ^ 1) * 2]


def test_functions_in_place(place: tg.DeviceName) -> None:
    start = np.array([-1.0, 0.25, 4.0], np.float32)
    for name, function in (
        ("abs_", np.abs),
        ("neg_", np.negative),
        ("exp_", np.exp),
        ("sqrt_", lambda x: np.sqrt(np.abs(x))),
        ("relu_", lambda x: np.maximum(x, 0)),
        ("sigmoid_", lambda x: 1 / (1 + np.exp(-x))),
        ("tanh_", np.tanh),
    ):
        x = tensor(np.abs(start) if name == "sqrt_" else start, place)
        assert getattr(x, name)() is x
        np.testing.assert_allclose(x.numpy(), function(start), rtol=1e-6, err_msg=name)
    x = tensor(start, place)
    assert x.masked_fill_(x < 0, 7.0).tolist() == [7.0, 0.25, 4.0]


def test_tensors_like_others(place: tg.DeviceName) -> None:
    x = tensor([[1, 2]], place)
    for make, value in ((tg.zeros_like, 0), (tg.ones_like, 1), (tg.empty_like, 0)):
        assert (make(x) + x).tolist() == [[1 + value, 2 + value]]
        assert str(make(x).dtype) == "int32" and str(make(x, "f32").dtype) == "float32"
    assert tg.full_like(x, 2.5, "f32").tolist() == [[2.5, 2.5]]


def test_arrays_of_the_host_stay(place: tg.DeviceName) -> None:
    x = tg.array([1.0, 2.0])
    same = x
    x += 1
    assert (same.tolist(), x.tolist()) == ([1.0, 2.0], [2.0, 3.0])
    with pytest.raises(tg.errors.GradientError, match=r"add_: the array is a constant of the host; tg\.tensor\(x\)"):
        same.add_(1)
    with pytest.raises(tg.errors.TraceError, match="a tensor can't be changed"):
        same[0] = 1


def test_items_are_set(place: tg.DeviceName) -> None:
    x = tensor(np.zeros((3, 4)), place)
    expected = np.zeros((3, 4), np.float32)
    for key, value in (
        ((0,), 1.0),
        ((slice(None), 1), [2.0, 3.0, 4.0]),
        ((slice(1, 3), slice(None, None, 2)), 5.0),
        ((-1, -1), 6.0),
        ((..., 0), 7.0),
        (([0, 2], [1, 3]), [8.0, 9.0]),
        (expected > 8, -1.0),
    ):
        x[key] = value
        expected[key] = value
        np.testing.assert_array_equal(x.numpy(), expected)


def test_a_change_that_does_not_fit(place: tg.DeviceName) -> None:
    x = tensor([1.0, 2.0], place)
    with pytest.raises(tg.errors.ShapeError, match=r"add_: shape \(3, 2\) does not broadcast to \(2,\)"):
        x.add_(np.ones((3, 2), np.float32))
    n = tensor([1, 2], place)
    with pytest.raises(tg.errors.DTypeError, match=r"\+=: f32 can't be stored in i32"):
        n += 0.5
    with pytest.raises(tg.errors.ShapeError):
        x[5] = 1.0
    assert (x.tolist(), n.tolist()) == ([1.0, 2.0], [1, 2])


VIEWS: dict[str, tuple[Any, Any]] = {
    "row": (lambda x: x[1], lambda a: a[1]),
    "rows": (lambda x: x[1:], lambda a: a[1:]),
    "columns": (lambda x: x[:, ::2], lambda a: a[:, ::2]),
    "backwards": (lambda x: x[::-1], lambda a: a[::-1]),
    "new axis": (lambda x: x[None, :, 1], lambda a: a[None, :, 1]),
    "T": (lambda x: x.T, lambda a: a.T),
    "transpose": (lambda x: x.transpose(1, 0), lambda a: a.transpose(1, 0)),
    "swapaxes": (lambda x: x.swapaxes(0, 1), lambda a: a.swapaxes(0, 1)),
    "permute": (lambda x: x.permute(1, 0), lambda a: a.transpose(1, 0)),
    "moveaxis": (lambda x: tg.moveaxis(x, 0, 1), lambda a: np.moveaxis(a, 0, 1)),
    "reshape": (lambda x: x.reshape(2, 6), lambda a: a.reshape(2, 6)),
    "squeeze": (lambda x: x[:1].squeeze(0), lambda a: a[:1].squeeze(0)),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    "narrow": (lambda x: tg.narrow(x, 1, 1, 2), lambda a: a[:, 1:3]),
    "split": (lambda x: tg.split(x, 2, 1)[1], lambda a: np.split(a, 2, 1)[1]),
    "chunk": (lambda x: tg.chunk(x, 3)[2], lambda a: a[2:]),
    "diagonal": (lambda x: tg.diagonal(x), lambda a: np.lib.stride_tricks.as_strided(a, (3,), (20,))),
    "of a view": (lambda x: x.T[1:][0], lambda a: a.T[1:][0]),
    "reshape of rows": (lambda x: x[1:].reshape(8), lambda a: a[1:].reshape(8)),
    "reshape of a column": (lambda x: x[:, 1].reshape(-1), lambda a: a[:, 1].reshape(-1)),
    "view of a column": (lambda x: x[:, 1].view(3, 1), lambda a: a[:, 1].reshape(3, 1)),
    "flat column": (lambda x: x[:, 1:2].flatten(), lambda a: a[:, 1:2].reshape(-1)),
    "reshape to rows": (lambda x: x.reshape(12)[1::2].reshape(2, 3), lambda a: a.reshape(12)[1::2].reshape(2, 3)),
    "reshape of columns": (lambda x: x.T.reshape(2, 2, 3), lambda a: a.T.reshape(2, 2, 3)),
    "reshape backwards": (lambda x: x[::-1].reshape(3, 1, 4), lambda a: a[::-1].reshape(3, 1, 4)),
    "row of a reshape": (lambda x: x[:, 1:2].reshape(3)[::2], lambda a: a[:, 1:2].reshape(3)[::2]),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("place", ["numpy", "cpu"])
def test_views_share_memory_as_numpy_has_them(name: str, place: tg.DeviceName) -> None:
    ours, theirs = VIEWS[name]
    start = np.arange(12, dtype=np.float32).reshape(3, 4)
    x, a = tensor(start, place), start.copy()
    view, b = ours(x), theirs(a)
    x += 10
    a += 10
    np.testing.assert_array_equal(view.numpy(), b)
    view.mul_(2)
    b *= 2
    np.testing.assert_array_equal(view.numpy(), b)
    np.testing.assert_array_equal(x.numpy(), a)
    view[...] = 3.0
    b[...] = 3.0
    np.testing.assert_array_equal(x.numpy(), a)


COPIES: dict[str, Any] = {
    "flip": tg.flip,
    "tile": lambda x: tg.tile(x, (1, 1)),
    "repeated": lambda x: tg.tile(x, (2, 1)),
    "by indices": lambda x: x[[0, 1]],
    "by a mask": lambda x: tg.where(x > 0, x, x),
    "clone": lambda x: x.clone(),
    "plus": lambda x: +(x + 0),
    "concat": lambda x: tg.concat([x]),
}


@pytest.mark.parametrize("name", COPIES)
def test_what_numpy_copies_is_no_view(name: str) -> None:
    x = tensor([[1.0, 2.0], [3.0, 4.0]], "numpy")
    copied = COPIES[name](x)
    before = copied.numpy()
    if copied is not x:  # concat of one and tile by ones may give the tensor itself
        x.fill_(9)
        np.testing.assert_array_equal(copied.numpy(), before)


@pytest.mark.parametrize("reshaped", [lambda x: x.T.reshape(4), lambda x: x.T.reshape(4)[1:].reshape(1, 3)])
def test_a_view_that_others_copy_is_an_error(reshaped: Any, place: tg.DeviceName) -> None:
    x = tensor([[1.0, 2.0], [3.0, 4.0]], place)
    flat = reshaped(x)
    assert flat.reshape(-1)[-1] == 4
    with pytest.raises(tg.errors.GradientError, match="is a reshape of one whose elements lie in memory so that no"):
        flat.add_(1)
    x += 1
    with pytest.raises(tg.errors.GradientError, match=r"so say what is meant by clone\(\)"):
        flat.numpy()


def test_one_element_that_is_several(place: tg.DeviceName) -> None:
    x = tensor([1.0, 2.0], place)
    wide = tg.broadcast_to(x, (3, 2))
    x += 1
    assert wide.tolist() == [[2.0, 3.0]] * 3
    with pytest.raises(tg.errors.ArgumentError, match=r"add_: several elements of the tensor are one in memory"):
        wide.add_(1)


def test_detach_shares_memory(place: tg.DeviceName) -> None:
    x = tensor([1.0, 2.0], place, requires_grad=True)
    y = x * 2
    shared, part = y.detach(), y[1:].detach()
    shared.add_(1)
    assert (y.tolist(), part.tolist()) == ([3.0, 5.0], [5.0])
    part.zero_()
    assert (y.tolist(), shared.tolist()) == ([3.0, 0.0], [3.0, 0.0])
    assert not shared.requires_grad


def test_a_value_in_python(place: tg.DeviceName) -> None:
    """A branch, a loop until convergence, and a shape that depends on values, in Python."""
    x = tensor(2.0, place, requires_grad=True)
    y = x
    while abs(float(y * y - 2.0)) > 1e-5:
        y = (y + 2.0 / y) * 0.5
    y.backward()
    assert float(y) == pytest.approx(2**0.5, abs=1e-5)
    if y > 1:
        count = int(y * 3)
        assert tg.tensor(np.ones(count), device=place).shape == (4,)


def test_numpy_takes_it_without_a_copy() -> None:
    x = tensor(np.arange(40_000, dtype=np.float32), "cpu")
    y = x + 1.0
    first, second = np.asarray(y), np.asarray(y)
    assert np.shares_memory(first, second)
    assert not first.flags.writeable
    shared = np.from_dlpack(y, copy=False)
    assert np.shares_memory(first, shared) and not shared.flags.writeable
    assert not np.shares_memory(first, np.from_dlpack(y))
    own = y.numpy()
    own[0] = 5.0
    assert float(y[0]) == 1.0


def test_torch_takes_it_and_gives_it() -> None:
    x = tensor([1.0, 2.0], "cpu")
    assert torch.from_dlpack(x + 1.0).tolist() == [2.0, 3.0]
    assert tg.tensor(torch.tensor([3.0, 4.0]), device="cpu").tolist() == [3.0, 4.0]
    with pytest.raises(tg.errors.DTypeError, match="requires a gradient"):
        tg.tensor(torch.tensor([3.0], requires_grad=True), device="cpu")


def test_copied_and_pickled(place: tg.DeviceName) -> None:
    x = tensor([1.0, 2.0], place, requires_grad=True)
    other = copy.deepcopy(x)
    with tg.no_grad():
        other += 1
    assert (x.tolist(), other.tolist(), other.requires_grad, other.device) == ([1.0, 2.0], [2.0, 3.0], True, place)
    revived = pickle.loads(pickle.dumps(x))
    assert (revived.tolist(), revived.device, revived.requires_grad) == ([1.0, 2.0], place, True)
    shallow = copy.copy(x)
    (shallow * 3).sum().backward()
    assert (x.grad.tolist(), shallow.is_leaf) == ([3.0, 3.0], True)
    with pytest.raises(tg.errors.GradientError, match="a tensor with a graph behind it can't be copied"):
        copy.deepcopy(x * 2)


def test_inside_a_trace_it_is_a_constant(place: tg.DeviceName) -> None:
    held = tensor([1.0, 2.0], place)
    twice = tg.jit(lambda x: x * held + tg.tensor(1.0), device="numpy")
    assert twice(np.array([3.0, 4.0], np.float32)).tolist() == [4.0, 9.0]
    expected = tensor([1.0, 2.0], place, requires_grad=True)
    with pytest.raises(tg.errors.TraceError, match="that requires a gradient is used in"):
        tg.jit(lambda x: x * expected, device="numpy")(np.ones(2, np.float32))
    with pytest.raises(tg.errors.OptionError, match="requires_grad is for tensors outside a trace"):
        tg.jit(lambda x: x * tg.tensor(1.0, requires_grad=True), device="numpy")(np.ones(2, np.float32))


def test_results_of_programs_are_tensors_on_their_device() -> None:
    total = tg.jit(lambda x: {"sum": tg.sum(x), "x": x * 2}, device="cpu")
    results = total(np.ones(4, np.float32))
    assert (results["sum"].device, (results["x"] + results["sum"]).tolist()) == ("cpu", [6.0] * 4)
    training = tg.compile(
        tg.nn.Linear(2, 1),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 2)},
        device="cpu",
    )
    losses = [training.step(x=np.ones((4, 2), np.float32)) for _ in range(3)]
    assert float(tg.mean(tg.stack(losses))) == pytest.approx(np.mean([float(loss) for loss in losses]))
    assert losses[0].device == "cpu"


def test_what_a_program_puts_out_stays_as_it_is(eager_device: RecordingDevice) -> None:
    """Memory is reused once nothing refers to its contents; long-lived results are copied out of it."""
    x = eager_device.made(np.zeros(40_000, np.float32))  # large enough to be read in place
    small, large, inputs = [], [], []
    for _ in range(8):
        inputs.append(x)
        x = x + 1
        small.append(x[:3] * 2)
        large.append(x * 3)
        flags = x > 2
        eager_device.synchronize()
        assert flags[0] == (x[0] > 2)
    sources = [array.live.value.source for array in small]
    assert [isinstance(source, np.ndarray) for source in sources] == [True] * 6 + [False] * 2
    for step, array in enumerate(large, 1):
        assert set(array.numpy().tolist()) == {3.0 * step}
    for step, array in enumerate(small, 1):
        assert array.tolist() == [2.0 * step] * 3
    for step, array in enumerate(inputs):
        assert set(array.numpy().tolist()) == {float(step)}


def test_memory_of_outputs_is_used_again(eager_device: RecordingDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    create = CpuDevice.create_buffer
    monkeypatch.setattr(
        CpuDevice, "create_buffer", lambda self, label, size: sizes.append(size) or create(self, label, size)
    )
    x = eager_device.made(np.zeros((8, 8), np.float32))
    losses = []
    for step in range(50):
        x = x + 1
        losses.append(x.sum())
        eager_device.synchronize()
        if step == 5:
            sizes.clear()
    assert sizes == []
    assert [float(loss) for loss in losses] == [64.0 * step for step in range(1, 51)]


def test_random_keys_on_a_device(eager_device: RecordingDevice) -> None:
    key = eager_device.made(np.array(tg.random.key(0)))
    drawn = tg.random.normal(key, (100,))
    assert drawn.device == "cpu"
    np.testing.assert_allclose(drawn.numpy(), np.asarray(tg.random.normal(tg.random.key(0), (100,))), atol=1e-5)


def names_recorded(eager_device: RecordingDevice) -> list[str]:
    return [entry.template.name for entry in eager_device._recording.structure.entries()]


def test_functions_are_recorded_whole(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
    labels = np.array([0, 3, 1], np.int32)
    results = [tg.cross_entropy(x, labels), tg.mse(x, np.zeros((3, 4), np.float32)), 1 - x, tg.softmax(x, axis=1)]
    assert names_recorded(eager_device) == ["cross_entropy", "mse", "subtract", "softmax"]
    on_numpy = tensor(x.numpy(), "numpy")
    expected = [tg.cross_entropy(on_numpy, labels), tg.mean(on_numpy**2), 1 - on_numpy, tg.softmax(on_numpy, 1)]
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)


def test_what_a_trace_is_not_sure_of_goes_the_long_way(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.array([[1.0, 4.0], [9.0, 16.0]], np.float32))
    assert tg.cross_entropy(x, np.array([0, 1], np.int32)).shape == ()
    for _ in range(2):  # whatever was traced before
        with pytest.raises(tg.errors.ShapeError, match=r"test_eager_tensors.py:\d+: cross_entropy: labels: index 2 is"):
            tg.cross_entropy(x, np.array([0, 2], np.int32))
        with pytest.raises(tg.errors.ShapeError, match=r"test_eager_tensors.py:\d+: matmul: inner extents differ"):
            tg.matmul(x, np.ones((3, 2), np.float32))
    empty = eager_device.made(np.zeros((0, 2), np.float32))
    for _ in range(2):
        with pytest.warns(tg.errors.EmptyAxisWarning) as warned:
            tg.mean(empty, 0)
        assert warned[0].filename == __file__


@public
@recorded_whole
def extremes(x: Any, factor: float) -> tuple[Any, Any]:
    return tg.max(x * factor), tg.min(x * factor)


UNCHANGED: dict[str, Callable[[Any], Any]] = {
    "roll": lambda x: tg.roll(x, 0, 0),
    "roll by name": lambda x: tg.roll(x=x, shift=0, axis=0),
    "repeat": lambda x: tg.repeat(x, 1, 0),
    "resize": lambda x: tg.resize(x[None, None], x.shape),
    "pixel_shuffle": lambda x: tg.pixel_shuffle(x[None, :, :, None], 1),
    "channel_shuffle": lambda x: tg.channel_shuffle(x[None], 2),
}


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("name", UNCHANGED)
def test_what_moves_nothing_is_a_copy(name: str, device: Any) -> None:
    x = tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device).requires_grad_()
    with tg.no_grad():
        result = UNCHANGED[name](x)
        before = result.numpy()
        x += 1
    np.testing.assert_array_equal(result.numpy(), before)
    UNCHANGED[name](x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.ones((2, 3)))


def test_floats_are_options_unless_they_change_too_often(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.array([1.0, 4.0], np.float32))
    for factor in (0.0, -0.0, *range(1, 30)):
        high, low = extremes(x, float(factor))
        assert (high.item(), low.item()) == (4.0 * factor, 1.0 * factor)
    results = [extremes(x, factor) for factor in (2.0, 2.0, 100.0)]
    assert names_recorded(eager_device) == ["extremes"] * 2 + ["multiply", "max", "multiply", "min"]
    assert [high.item() for high, _ in results] == [8.0, 8.0, 400.0]


def test_arguments_of_one_value_and_another_type_are_others(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.array([1.0, 2.0], np.float32))
    n = eager_device.made(np.array([1, 2], np.int32))
    assert [str((n * number).dtype) for number in (1, 1.0, True)] == ["int32", "float32", "int32"]
    assert [(x.sum(0, keepdims=keep).shape) for keep in (False, True)] == [(), (1,)]
    assert [np.signbit((x[:1] * zero).numpy()[0]) for zero in (0.0, -0.0)] == [False, True]


def test_a_number_is_an_operand(eager_device: RecordingDevice) -> None:
    x = eager_device.made(np.ones(3, np.float32))
    for number in range(5):
        assert (x * (number + 0.5)).tolist() == [number + 0.5] * 3
    assert len(eager_device._functions) == 1


def test_large_arrays_of_any_order_and_truths(eager_device: RecordingDevice) -> None:
    """Arrays that a CPU program reads in place, converts, or returns without a copy."""
    start = np.arange(40_000, dtype=np.float32).reshape(200, 200)
    rows, columns = eager_device.made(start.copy()), eager_device.made(np.asfortranarray(start))
    results = [(rows + columns, rows > 100, columns * number) for number in (1.0, 2.0, 3.0)]
    again: list[Any] = []
    for number in (1.0, 2.0, 3.0):
        again.append((rows + columns, rows > 100, columns * number))
        assert again[-1][0].numpy()[1, 2] == 404.0
        rows, columns = columns, rows
    for number, computed in zip((1.0, 2.0, 3.0) * 2, (*results, *again), strict=True):
        expected = (start * 2, start > 100, start * np.float32(number))
        for result, values in zip(computed, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(result), values)
            assert not np.asarray(result).flags.writeable


@pytest.mark.nightly
def test_no_collection_is_needed() -> None:
    """Values and graphs have no reference cycles, so they are freed immediately."""
    eager_device = eager_device_named("cpu")
    gc.collect()
    gc.disable()
    try:
        before = 0
        for step in range(60):
            before = len(gc.get_objects()) if step == 10 else before  # by then all is compiled
            x = eager_device.made(np.ones(3, np.float32)).requires_grad_()
            y = tg.sum(tg.tanh(x) * x[1:].sum())
            y.backward()
            float(y)
            assert x.grad is not None
        after = len(gc.get_objects())
    finally:
        gc.enable()
    assert after - before < 400
