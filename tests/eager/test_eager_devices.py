"""`Tensor.to`: copies between devices and dtypes, gradients through them, and shared memory."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg
import tensorgrad.array_api as xp
from tensorgrad.driver.handles.eager_devices import eager_device_named
from tensorgrad.eager import templates
from tensorgrad.eager.tape import TapeNode

DEVICES: tuple[tg.DeviceName, ...] = ("numpy", "cpu", "wgpu")
PAIRS = [*itertools.permutations(DEVICES, 2)]
VALUES = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]], np.float32)


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest) -> Any:
    """Pairs of different devices."""
    return request.param


def leaf(values: Any, place: tg.DeviceName, **options: Any) -> Any:
    return tg.tensor(values, device=place, requires_grad=True, **options)


def slope(f: Callable[[Any], Any], order: int = 1) -> Any:
    """Returns the derivative of a function of a vector's elements, by `tg.grad`."""
    for _ in range(order):
        f = tg.grad(lambda x, f=f: tg.sum(f(x)))
    return f


def test_values_are_copied(pair: Any) -> None:
    source, target = pair
    x = tg.tensor(VALUES, device=source)
    y = (x * 2).to(target)
    assert (y.device, y.dtype, x.device, y.requires_grad, y.is_leaf) == (target, np.float32, source, False, True)
    assert np.array_equal(y, 2 * VALUES)
    assert np.array_equal((y + tg.tensor(VALUES, device=target)).T.to(source).T, 3 * VALUES)
    y[0] = 7.0
    x.add_(1)
    assert np.array_equal(x, VALUES + 1) and y[0].tolist() == [7.0, 7.0, 7.0]
    assert np.array_equal(y[1], 2 * VALUES[1])


@pytest.mark.parametrize("shape", [(), (0,), (1,), (40_000,)])
def test_any_shape(pair: Any, shape: tuple[int, ...]) -> None:
    source, target = pair
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    moved = (tg.tensor(values, device=source) + 1).to(target)
    assert moved.shape == shape and np.array_equal(moved, values + 1) and np.array_equal(moved * 2, 2 * values + 2)


def test_what_repeats_an_element_is_copied_whole() -> None:
    x = tg.broadcast_to(tg.tensor([[1.0], [2.0]], device="numpy"), (2, 3)).to("cpu")
    assert (x + 1).tolist() == [[2.0] * 3, [3.0] * 3]


@pytest.mark.parametrize("dtype", ["f32", "f16", "i32", "u32", "i8", "u8", "i16", "u16", "bool"])
def test_every_dtype(pair: Any, dtype: str) -> None:
    source, target = pair
    values = np.asarray(tg.array([0, 1, 1, 0, 1]).astype(dtype))
    moved = tg.tensor(values, dtype, device=source).to(target)
    assert moved.device == target and moved.dtype == values.dtype and np.array_equal(moved, values)


def test_what_is_there_already_is_itself() -> None:
    for place in DEVICES:
        x = leaf([1.0, 2.0], place)
        assert (
            x.to(place) is x.to("f32") is x.to(place, tg.f32) is x.to() is x.to(dtype=float) is x.to(device=place) is x
        )
        assert x.to(x * 2) is x.to(place, copy=False) is x.to_device(place) is x
        copied = x.to(place, copy=True)
        assert copied is not x and copied.requires_grad and not copied.is_leaf
    host = tg.array([1.0])
    assert host.to("f32") is host.to("host") is host.to(host) is host


def test_dtypes() -> None:
    x = tg.tensor([1.5, -2.5], "f64", device="cpu")
    assert (x.to("i32").tolist(), x.to("i32").device) == ([1, -2], "cpu")
    assert tg.array([1.5]).to("i32").dtype == np.int32 and tg.array([1.5]).to("i32").device == "host"
    for moved in (x.to("wgpu", "f32"), x.to(device="wgpu", dtype="f32"), x.to(tg.tensor([1.0], device="wgpu"))):
        assert (moved.device, moved.dtype, moved.tolist()) == ("wgpu", np.float32, [1.5, -2.5])
    # Each cast is made where its dtype is: wgpu has no f64.
    back = tg.tensor([0.1], device="wgpu").to("cpu", "f64")
    assert (back.device, back.dtype, back.tolist()) == ("cpu", np.float64, [float(np.float32(0.1))])
    assert x.to(tg.array([1], "i32")).dtype == np.int32, "an array of the host is on no device"
    assert x.to(tg.array([1], "i32")).device == "cpu"


def test_arrays_of_the_host_go_to_a_device() -> None:
    numbers = np.ones(3, np.float32)
    for place in DEVICES:
        x = tg.array(numbers).to(place)
        assert x.device == place and x.is_leaf and not x.requires_grad
        x.requires_grad_()
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(tg.errors.DTypeError, match="to: wgpu has no f64"):
        tg.array([1.0], "f64").to("wgpu")
    assert tg.array([1.0], "f64").to("wgpu", "f32").tolist() == [1.0]
    assert tg.array([1.0]).cpu().device == tg.tensor([1.0], device="wgpu").cpu().device == "cpu"
    assert tg.tensor([1.0], device="numpy").to_device("wgpu").device == "wgpu"


def test_gradients_go_back_to_the_leaf(pair: Any) -> None:
    source, target = pair
    x, w = leaf(VALUES, source), leaf(VALUES[::-1].copy(), target)
    y = tg.tanh(x * 2).to(target)
    assert y.requires_grad and not y.is_leaf
    (y * w).sum().backward()
    assert (x.grad.device, w.grad.device) == (source, target)
    dx, dw = tg.grad(lambda x, w: tg.sum(tg.tanh(x * 2) * w), argnums=(0, 1))(VALUES, VALUES[::-1].copy())
    np.testing.assert_allclose(x.grad, dx, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(w.grad, dw, rtol=1e-5, atol=1e-6)
    (x.to(target) * 3).sum().backward()
    np.testing.assert_allclose(x.grad, np.asarray(dx) + 3, rtol=1e-5, atol=1e-6)


def test_gradients_through_both_ways_and_all_devices() -> None:
    """A node is reached through several devices, and differentiated only once all paths have arrived."""
    x = leaf(VALUES, "cpu")
    y = tg.sin(x)
    z = y * y.to("numpy").exp().to("wgpu").to("cpu") + (y.to("wgpu") * x.to("wgpu")).cpu()
    z.sum().backward()
    expected = tg.grad(lambda x: tg.sum(tg.sin(x) * tg.exp(tg.sin(x)) + tg.sin(x) * x))(VALUES)
    np.testing.assert_allclose(x.grad, expected, rtol=1e-5, atol=1e-6)
    assert x.grad.device == "cpu"


def test_gradients_through_a_conversion() -> None:
    x = leaf([0.5, 2.0], "cpu", dtype="f64")
    (x.to("wgpu", "f32") ** 2).sum().backward()
    assert (x.grad.dtype, x.grad.device, x.grad.tolist()) == (np.float64, "cpu", [1.0, 4.0])
    y = leaf([0.5, 2.0], "wgpu")
    (y.to("cpu", "f64") ** 2).sum().backward()
    assert (y.grad.dtype, y.grad.device, y.grad.tolist()) == (np.float32, "wgpu", [1.0, 4.0])
    assert not y.to("cpu", "i32").requires_grad


@pytest.mark.in_turns(3)
def test_derivatives_of_gradients(pair: Any) -> None:
    source, target = pair
    x = leaf(VALUES, source)
    z = (tg.sin(x).to(target) ** 3).to(source) * x
    value = z.sum()
    for order in (1, 2, 3):
        x.zero_grad()
        value.backward(create_graph=True)
        assert x.grad.device == source
        expected = slope(lambda x: tg.sin(x) ** 3 * x, order)(VALUES)
        np.testing.assert_allclose(x.grad, expected, rtol=1e-4, atol=1e-4)
        value = x.grad.sum()


def test_a_penalty_on_a_gradient_of_another_device(pair: Any) -> None:
    source, target = pair
    x = leaf(VALUES, source)
    (x.to(target) ** 3).sum().backward(create_graph=True)
    first = x.grad
    x.zero_grad()
    ((first.to(target) - 1.0) ** 2).sum().backward()
    np.testing.assert_allclose(x.grad, 12 * VALUES * (3 * VALUES**2 - 1), rtol=1e-4)
    assert x.grad.device == source


def test_modes_hooks_and_kept_gradients(pair: Any) -> None:
    source, target = pair
    x = leaf([1.0, 2.0], source)
    with tg.no_grad():
        assert not x.to(target).requires_grad
    assert not x.detach().to(target).requires_grad
    y = x.to(target)
    y.retain_grad()
    seen: list[Any] = []
    y.register_hook(lambda gradient: seen.append(gradient) or gradient * 2)
    x.register_hook(seen.append)
    (y * y).sum().backward(retain_graph=True)
    assert [device.device for device in seen] == [target, source]
    assert (y.grad.device, y.grad.tolist(), x.grad.tolist()) == (target, [4.0, 8.0], [4.0, 8.0])
    z = y.sum()
    x.zero_grad()
    z.backward(inputs=[x])
    assert x.grad.tolist() == [2.0, 2.0] and y.grad.tolist() == [4.0, 8.0]


def test_a_gradient_is_asked_for_or_given(pair: Any) -> None:
    source, target = pair
    x, w = leaf([1.0, 2.0], source), leaf([3.0, 4.0], target)
    y = x.to(target)
    (y * w).backward(tg.tensor([1.0, 10.0], device=target), inputs=w)
    assert (x.grad, w.grad.tolist()) == (None, [1.0, 20.0])
    y = x.to(target)
    y.backward(tg.tensor([1.0, 10.0], device=target))
    assert x.grad.tolist() == [1.0, 10.0]
    with pytest.raises(tg.errors.ArgumentError, match=f"a tensor on {source} is used together with one on {target}"):
        x.to(target).backward(x.detach())
    y = x.to(target)
    y.sum().backward()
    with pytest.raises(tg.errors.GradientError, match="was freed by an earlier backward pass"):
        y.sum().backward()


def test_changes_in_place_beside_a_copy(pair: Any) -> None:
    source, target = pair
    x = leaf([1.0, 2.0], source)
    y = x.to(target)
    with tg.no_grad():
        x += 5  # the derivative of a copy needs no values
    y *= 3
    y[0] = 0.0
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0]
    assert y.tolist() == [0.0, 6.0]


def test_a_step_over_two_devices() -> None:
    """A model whose layers are on two devices trains like one on a single device."""

    def losses(second: tg.DeviceName) -> list[float]:
        a, b = leaf(VALUES, "cpu"), leaf(VALUES.T.copy(), second)
        optimizers = [tg.optim.SGD([a], lr=0.05), tg.optim.SGD([b], lr=0.05)]
        values: list[float] = []
        for _ in range(4):
            loss = ((tg.tanh(a.T @ a).to(second) @ b - 1.0) ** 2).mean()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            values.append(float(loss))
        return values

    expected = losses("cpu")
    assert expected[3] < expected[0]
    np.testing.assert_allclose(losses("numpy"), expected, rtol=1e-4)
    np.testing.assert_allclose(losses("wgpu"), expected, rtol=1e-4)


def nodes() -> int:
    """Returns the number of ops on tapes, after computing all recorded ops."""
    for place in DEVICES:
        eager_device_named(place).synchronize()
    return sum(isinstance(tracked, TapeNode) for tracked in gc.get_objects())


@pytest.mark.nightly
def test_no_graph_is_kept_alive(pair: Any) -> None:
    """Without a garbage collection, as there are no reference cycles."""
    source, target = pair
    gc.collect()
    gc.disable()
    gc.freeze()  # existing objects need not be traversed repeatedly
    try:
        before = nodes()
        x = leaf(np.ones(1000), source)
        for _ in range(3):
            assert (x * 2).to(target).requires_grad
        assert nodes() == before, "a copy that nobody holds holds nothing"
        y = tg.sin(x).to(target)
        z = (y * y).sum()
        assert nodes() >= before + 4
        z.backward()
        assert nodes() == before + 2, "a pass lets go what is behind the tensors that someone holds, y and z"
        del y
        z = (tg.sin(x).to(target) ** 2).sum()
        x.zero_grad()
        z.backward(create_graph=True)
        assert x.grad.requires_grad and nodes() > before + 4
        x.zero_grad()
        del z
        assert nodes() == before
    finally:
        gc.unfreeze()
        gc.enable()


def test_a_pass_that_recurs_on_one_device_is_one_application() -> None:
    eager_device: Any = eager_device_named("cpu")
    applied: list[list[str]] = []
    for _ in range(3):
        eager_device.synchronize()
        x = tg.tensor(VALUES, device="numpy").to("cpu").requires_grad_()
        y = tg.tanh(x * 2).sum()
        before = len(eager_device._recording.structure.entries())
        y.backward()
        applied.append([entry.template.name for entry in eager_device._recording.structure.entries()[before:]])
    assert len(applied[0]) > 1 and applied[1:] == [["backward"]] * 2


def test_an_interpreted_pass_has_no_ir_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of every length occur once, as in episodes: each op is known from the first ones."""
    eager_device_named("cpu").synchronize()
    built: list[str] = []
    create = templates.Template.__init__

    def counted(self: templates.Template, name: str, block: Any) -> None:
        built.append(name)
        create(self, name, block)

    monkeypatch.setattr(templates.Template, "__init__", counted)
    counts: list[int] = []
    for length in (3, 4, 9):
        x = tg.tensor(VALUES, device="cpu").requires_grad_()
        y = x
        for _ in range(length):
            y = tg.cos(y) * 0.5
        y.sum().backward()
        assert x.grad is not None and np.isfinite(x.grad.numpy()).all()
        counts.append(len(built))
    assert counts[0] == counts[1] == counts[2] and "backward" not in built


def test_a_block_of_one_structure_with_another_graph_behind_it() -> None:
    """What is cached for a block with a leaf is not used for one with a copy in its place."""
    for _ in range(2):
        eager_device_named("cpu").synchronize()
        x = leaf(VALUES, "cpu")
        (x * x).sum().backward()
        np.testing.assert_allclose(x.grad, 2 * VALUES)
        eager_device_named("cpu").synchronize()
        y = leaf(VALUES, "numpy")
        x = y.to("cpu")
        (x * x).sum().backward()
        np.testing.assert_allclose(y.grad, 2 * VALUES)


def test_what_to_refuses() -> None:
    x = leaf([1.0, 2.0], "cpu")
    anything: Any = x
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (
            tg.errors.OptionError,
            "not 'cuda'; the nearest is 'wgpu'; it is no dtype either",
            lambda: anything.to("cuda"),
        ),
        (
            tg.errors.OptionError,
            "to: device must be one of auto, wgpu, cpu, numpy, not 'float33'",
            lambda: x.to("float33"),
        ),
        (tg.errors.OptionError, "not 'tpu'$", lambda: anything.to(device="tpu")),
        (
            tg.errors.OptionError,
            r"not 'host'; tg.array\(x.detach\(\)\) makes an array of the host",
            lambda: x.to("host"),
        ),
        (tg.errors.DTypeError, "is not supported", lambda: x.to(torch.complex64)),
        (tg.errors.DTypeError, "to: wgpu has no f64", lambda: x.to("f64").to("wgpu")),
        (tg.errors.DTypeError, "cast: wgpu has no f64", lambda: x.to("wgpu", "f64")),
        (tg.errors.ArgumentError, "to: the device is given twice", lambda: x.to("cpu", device="numpy")),
        (tg.errors.ArgumentError, "to: the dtype is given twice", lambda: x.to("f32", "f16")),
        (tg.errors.ArgumentError, "to: the dtype is given twice", lambda: x.to(x, "f16")),
    ]
    for kind, message, call in cases:
        with pytest.raises(kind, match=message) as caught:
            call()
        assert str(caught.value).startswith(f"{__file__}:")


def test_inside_a_trace() -> None:
    x = leaf([1.0, 2.0], "cpu")
    assert tg.jit(lambda x: x.to("f16"), device="numpy")(VALUES).dtype == np.float16
    assert tg.jit(lambda x: x.to(dtype="i32").to("host").to(x), device="numpy")(VALUES).dtype == np.float32
    assert tg.jit(lambda x, y: x.to(y), device="numpy")(VALUES, np.ones(2, np.int32)).dtype == np.int32
    assert tg.grad(lambda y: tg.sum(y.to(x) * 3))(VALUES).tolist() == [[3.0] * 3] * 2
    for function in (lambda y: y.to("wgpu"), lambda y: y * x.detach().to("numpy")[0], lambda y: y.cpu()):
        with pytest.raises(tg.errors.TraceError, match=r"to: inside .*, which is traced, a tensor is on no") as caught:
            tg.grad(lambda y, f=function: tg.sum(f(y)))(VALUES)
        assert str(caught.value).startswith(f"{__file__}:")


def test_memory_is_shared_on_request() -> None:
    arrays = np.arange(6, dtype=np.float32).reshape(2, 3), torch.arange(6, dtype=torch.float32).reshape(2, 3)
    for take in (tg.from_dlpack, xp.from_dlpack, xp.asarray):
        for numbers in arrays:
            shared, copied = take(numbers, copy=False), take(numbers)
            assert isinstance(shared, tg.Array) and shared.device == "host"
            assert np.shares_memory(np.asarray(shared), np.asarray(numbers)) and shared.shape == (2, 3)
            assert not np.shares_memory(np.asarray(copied), np.asarray(numbers))
            assert not np.asarray(shared).flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                np.asarray(shared)[0] = 1.0
            with pytest.raises(tg.errors.TraceError, match="can't be changed"):
                shared[0] = 1.0
            assert take(shared, copy=False) is shared
            expected = np.array(shared)
            for place in DEVICES:
                assert np.array_equal(shared + tg.tensor(1.0, device=place), expected + 1)
                moved = shared.to(place)
                moved += 1  # a copy
                assert np.array_equal(moved, expected + 1) and np.array_equal(shared, expected)


@pytest.mark.nightly
def test_shared_memory_lives_as_long_as_who_uses_it() -> None:
    numbers = np.arange(1000, dtype=np.float32)
    gone = weakref.ref(numbers)
    shared: Any = xp.asarray(numbers, copy=False)
    pending = shared + tg.tensor(1.0, device="cpu")
    del numbers, shared
    assert gone() is not None
    assert pending.tolist() == [*np.arange(1.0, 1001.0)]
    del pending
    eager_device_named("cpu").synchronize()
    gc.collect()
    assert gone() is None


def test_memory_that_is_read_only_is_shared() -> None:
    numbers = np.arange(3, dtype=np.int16)
    numbers.flags.writeable = False
    assert np.shares_memory(np.asarray(tg.from_dlpack(numbers, copy=False)), numbers)


def test_memory_that_cannot_be_shared() -> None:
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    unaligned = np.zeros(9, np.uint8)[1:].view(np.float32)
    order = "its elements do not lie one after the other, in order and aligned"
    cases: list[tuple[type[Exception], str, Any]] = [
        (tg.errors.OptionError, order, numbers.T),
        (tg.errors.OptionError, order, numbers[:, ::2]),
        (tg.errors.OptionError, order, unaligned),
        (tg.errors.OptionError, order, torch.ones(3, 4).T),
        (tg.errors.OptionError, "Tensor has to be copied: ", torch.ones(2, requires_grad=True)),
        (tg.errors.DTypeError, "complex64 is not supported", np.ones(2, np.complex64)),
        (tg.errors.DTypeError, ">f4 is not supported", np.ones(2, ">f4")),
    ]
    for kind, message, array in cases:
        for take in (tg.from_dlpack, xp.from_dlpack, xp.asarray):
            with pytest.raises(kind, match=message) as caught:
                take(array, copy=False)
            assert str(caught.value).startswith(f"{__file__}:")
    with pytest.raises(tg.errors.OptionError, match=r"f64 would be converted to 32 bits; tensorgrad\.array_api"):
        tg.from_dlpack(np.ones(2), copy=False)
    assert xp.from_dlpack(np.ones(2), copy=False).dtype == np.float64
    with pytest.raises(tg.errors.OptionError, match="f32 has to be copied to become f64"):
        xp.asarray(numbers, dtype=xp.float64, copy=False)
    with pytest.raises(tg.errors.DTypeError, match="takes an array with __dlpack__, not list"):
        tg.from_dlpack([1.0], copy=False)


FORK = """
import os, threading, time, warnings
import tensorgrad as tg
warnings.simplefilter("ignore")  # Python warns of forks with threads
x = tg.tensor([[1.0, 2.0], [3.0, 4.0]], device="cpu")
computed = threading.Event()

def compute():
    while True:
        float((tg.sin(x @ x) + 1).sum())
        computed.set()

threading.Thread(target=compute, daemon=True).start()
computed.wait()
for _ in range(4):
    child = os.fork()
    if child == 0:
        os._exit(float((x + 1).sum()) != 14)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_while_another_thread_computes() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
