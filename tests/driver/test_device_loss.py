"""Device loss in the middle of a run: errors, and recovery."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from models import batch, compiled
from wgpu.backends.wgpu_native import lib

import tensorgrad as tg
from tensorgrad.driver.handles import eager_devices
from tensorgrad.errors import DeviceLostError, DeviceLostWarning, InputError, NoAdapterError, OptionError
from tensorgrad.runtime.webgpu import RestartingExecutable, WebGPUDevice, WebGPUExecutable, adapters, restarting

pytestmark = pytest.mark.usefixtures("kept_programs")

STEPS = 12


@pytest.fixture(autouse=True)
def own_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each test open separate devices, so that it can destroy them, and puts eager tensors on these."""
    monkeypatch.setattr(WebGPUDevice, "_by_request", {})
    monkeypatch.setattr(WebGPUDevice, "_by_adapter", {})
    monkeypatch.setattr(eager_devices, "_eager_devices", {})


def lose() -> None:
    """Destroys the current device; wgpu-py's `destroy` also ends the thread that awaited reads need."""
    native: Any = lib
    native.wgpuDeviceDestroy(WebGPUDevice().wgpu_device._internal)


def trained(**options: Any) -> tg.Training:
    return compiled(device="wgpu", on_device_lost="restart", **options)


def same(state: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return state.keys() == other.keys() and all(np.array_equal(state[name], other[name]) for name in state)


def bits(values: Any) -> list[bytes]:
    return [np.asarray(value).tobytes() for value in values]


def uninterrupted(steps: int = STEPS, **options: Any) -> tuple[list[bytes], dict[str, np.ndarray]]:
    training = compiled(device="wgpu", **options)
    return bits([training.step(**batch(number)) for number in range(steps)]), training.state_dict()


def repeated(count: int) -> Any:
    return pytest.warns(DeviceLostWarning, match=f"snapshot {count} steps were repeated, and none is lost")


@pytest.mark.in_turns(6, 5)
@pytest.mark.parametrize("lost_at", [0, 1, 7, STEPS])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_steps_go_on_with_the_same_bits(lost_at: int, accumulate: int) -> None:
    losses, state = uninterrupted(accumulate=accumulate)
    training = trained(accumulate=accumulate)
    results: list[Any] = []
    arrays = batch(0)
    with repeated(lost_at):
        for number in range(STEPS):
            if number == lost_at:
                lose()
            for name, values in batch(number).items():
                arrays[name][:] = values  # a caller may use its arrays again
            results.append(training.step(**arrays))
        if lost_at == STEPS:
            lose()
        assert same(training.state_dict(), state)
    assert bits(results) == losses
    assert training.step_count == STEPS // accumulate


def test_a_loss_is_found_when_a_result_is_read() -> None:
    losses, state = uninterrupted()
    training = trained()
    results = [training.step(**batch(number)) for number in range(STEPS)]
    assert float(results[3]) == np.frombuffer(losses[3], np.float32)
    more = [training.step(**batch(number)) for number in range(2)]
    lose()
    with repeated(STEPS + 2):
        float(more[0])
    assert bits(results) == losses
    other = trained()
    for number in [*range(STEPS), 0, 1]:
        other.step(**batch(number))
    assert same(training.state_dict(), other.state_dict())
    assert not same(training.state_dict(), state)


def test_only_steps_that_change_something_lead_to_snapshots() -> None:
    journal, nobody = restarting.Journal(every=2), cast(Any, lambda: None)
    evaluation = restarting.Step(nobody, {}, {}, changes=False, bytes=0, number=1)
    step = dataclasses.replace(evaluation, changes=True)
    for call in (step, evaluation, evaluation, restarting.Write(nobody, {}, bytes=0)):
        journal.add(call)
        assert not journal.is_due
    journal.add(step)
    assert journal.is_due


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("every", [1, 5])
def test_snapshots_bound_what_is_repeated(every: int) -> None:
    losses, state = uninterrupted()
    training = trained(snapshot_every=every)
    results = [training.step(**batch(number)) for number in range(STEPS - 1)]
    lose()
    with repeated((STEPS - 2) % every + 1):
        results.append(training.step(**batch(STEPS - 1)))
    assert bits(results) == losses
    assert same(training.state_dict(), state)


def test_whatever_reads_the_state_is_a_snapshot() -> None:
    training = trained()
    training.run(4, batch())
    training.state_dict()
    training.run(2, batch())
    training.parameters()  # does not read the optimizer's state
    lose()
    with repeated(2):
        training.parameters()


def test_large_inputs_are_not_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(values.nbytes for values in batch().values())
    monkeypatch.setattr(restarting, "MOST_KEPT", 3 * size)
    training = trained()
    training.run(6, batch())
    lose()
    with repeated(2):  # a snapshot was due before the fifth
        training.step(**batch())


def test_run_goes_on() -> None:
    losses, state = uninterrupted()
    training = trained(snapshot_every=4)

    def data() -> Iterator[dict[str, np.ndarray]]:
        for number in range(STEPS):
            if number in (6, 7):
                lose()
            yield batch(number)

    with pytest.warns(DeviceLostWarning) as caught:
        results = training.run(STEPS, data())
    assert [str(warning.message).partition("last snapshot ")[2][:7] for warning in caught] == ["2 steps", "3 steps"]
    assert {warning.filename for warning in caught} == {__file__}
    assert bits(results) == losses
    assert same(training.state_dict(), state)


def test_coroutines_go_on() -> None:
    losses, state = uninterrupted()
    training = trained()

    async def work() -> list[Any]:
        steps = [training.step_async(**batch(number)) for number in range(STEPS - 2)]
        waiting = [asyncio.ensure_future(step) for step in steps]
        await asyncio.sleep(0)  # all are submitted
        lose()
        results = await asyncio.gather(*waiting)
        return [*results, *[await training.step_async(**batch(number)) for number in (STEPS - 2, STEPS - 1)]]

    with pytest.warns(DeviceLostWarning) as caught:
        assert bits(asyncio.run(work())) == losses
    assert len(caught) == 1
    assert same(training.state_dict(), state)


def test_fit_goes_on(tmp_path: Any) -> None:
    x = {name: np.concatenate([batch(number)[name] for number in range(STEPS)]) for name in batch()}

    def fit(training: tg.Training, folder: str, lost_at: int | None) -> Any:
        class Lose(tg.callbacks.Callback):
            def on_step(self, run: Any) -> None:
                if run.step == lost_at:
                    lose()

        return tg.fit(
            training, tg.data.batches(x, 4, shuffle=1), epochs=2, callbacks=[Lose()], progress=False,
            evaluate=lambda training: {"loss": training.evaluate(tg_loss, [batch(50)])}, evaluate_every=5,
            checkpoint=tg.callbacks.Checkpoints(tmp_path / folder, every=6),
        )  # fmt: skip

    expected = fit(trained(), "one", None)
    training = trained()
    with repeated(4):
        report = fit(training, "other", 10)
    assert report.step == training.step_count == 2 * STEPS
    assert report.losses.tobytes() == expected.losses.tobytes()
    assert report.evaluations == expected.evaluations
    assert expected.checkpoint is not None and report.checkpoint is not None
    assert report.checkpoint.read_bytes() == expected.checkpoint.read_bytes()


def tg_loss(model: Any, x: Any, y: Any) -> Any:
    return tg.mse(model(x), y)


def test_attached_functions_go_on() -> None:
    x = batch(40)["x"]
    plain, training = compiled(device="wgpu"), trained(snapshot_every=3)
    predict_plain, predict_training = (
        each.attach(lambda model, x: model(x), inputs={"x": (4, 3)}) for each in (plain, training)
    )
    expected: list[Any] = []
    results: list[Any] = []
    for number in range(8):
        for each, values, predict in ((plain, expected, predict_plain), (training, results, predict_training)):
            each.step(**batch(number))
            values.append(predict(x=x))
    expected_bits = bits(expected)
    lose()
    with repeated(2):
        results.append(predict_training(x=x))
    assert bits(results[:-1]) == expected_bits
    assert bits(results[-1:]) == expected_bits[-1:]
    again = training.attach(lambda model, x: model(x) * 2, inputs={"x": (4, 3)})  # compiled on the new device
    np.testing.assert_array_equal(again(x=x), 2 * np.asarray(results[-1]))
    lose()
    with repeated(2):
        training.attach(lambda model, x: model(x) * 3, inputs={"x": (4, 3)})
    assert training.gradients(**batch()).keys() == training.parameters().keys()


def test_what_was_set_is_set_again() -> None:
    values = {name: np.full(value.shape, 0.25, np.float32) for name, value in compiled().parameters().items()}
    training = trained()
    training.run(2, batch())
    training.load_parameters(values)
    lose()
    with repeated(2):
        assert same(training.parameters(), values)
    lose()
    with repeated(2):
        training.load_parameters({name: value * 2 for name, value in values.items()})
    assert same(training.parameters(), {name: value * 2 for name, value in values.items()})


def test_profiled_steps_are_steps() -> None:
    _, state = uninterrupted(4)
    training = trained()
    with training.profile() as profile:
        for number in range(3):
            training.step(**batch(number))
        lose()
        with repeated(1):  # before a profiled step its state is read, which is a snapshot
            training.step(**batch(3))
    assert profile.steps == 4
    lose()
    with repeated(1):
        assert same(training.state_dict(), state)


def test_a_random_key_goes_on() -> None:
    def loss(model: Any, x: Any, y: Any, key: Any) -> Any:
        return tg.mse(model(x + tg.random.normal(key, x.shape)), y)

    losses, state = uninterrupted(loss=loss, seed=3)
    training = trained(loss=loss, seed=3)
    results = [training.step(**batch(number)) for number in range(5)]
    lose()
    with repeated(5):
        results += [training.step(**batch(number)) for number in range(5, STEPS)]
    assert bits(results) == losses
    assert same(training.state_dict(), state)


def test_nothing_compiles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    training = trained()
    training.step(**batch())

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pass runs")

    monkeypatch.setattr("tensorgrad.driver.compiling.lowering.run_passes", refuse)
    lose()
    with repeated(1):
        training.step(**batch())


def test_the_default_keeps_nothing_and_raises() -> None:
    training = compiled(device="wgpu")
    executable = training._executable
    assert type(executable) is WebGPUExecutable
    handle = training.step(**batch())
    state = training.state_dict()
    lose()
    calls: list[Callable[[], object]] = [lambda: training.step(**batch()), training.parameters, lambda: float(handle)]
    for call in calls:
        with pytest.raises(DeviceLostError, match=r"'squared_error', in which kernel '\w+' \(.*models\.py:\d+\) has"):
            call()
    assert training.step_count == 1
    again = compiled(device="wgpu")
    again.load_state_dict(state)
    assert again.step_count == 1 and same(again.state_dict(), state)


def test_bad_inputs_are_not_remembered() -> None:
    training = trained()
    training.step(**batch())
    with pytest.raises(InputError, match="input 'x' has shape"):
        training.step(**{**batch(), "x": np.zeros((2, 2), np.float32)})
    lose()
    with repeated(1):
        training.step(**batch())


def test_a_warning_that_is_an_error_changes_nothing() -> None:
    _, state = uninterrupted(2)
    training = trained()
    training.step(**batch(0))
    lose()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeviceLostWarning):
            training.step(**batch(1))
    assert training.step_count == 1
    training.step(**batch(1))
    assert same(training.state_dict(), state)


def test_a_device_that_is_lost_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _, state = uninterrupted(4)
    training = trained()
    for number in range(3):
        training.step(**batch(number))
    again = restarting.Step.again

    def losing(self: restarting.Step) -> Any:
        lose()
        return again(self)

    lose()
    with monkeypatch.context() as patch:
        patch.setattr(restarting.Step, "again", losing)
        message = r"(?s)running 'squared_error'.*while the 3 steps since the last snapshot were repeated"
        for _ in range(2):
            with pytest.raises(DeviceLostError, match=message):
                training.step(**batch(3))
    assert training.step_count == 3
    with repeated(3):
        training.step(**batch(3))
    assert same(training.state_dict(), state)


def test_no_device_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    _, state = uninterrupted(2)
    training = trained()
    training.step(**batch(0))
    lose()
    with monkeypatch.context() as patch:
        patch.setattr(adapters, "_adapters", list)
        with pytest.raises(NoAdapterError, match="there is no software WebGPU adapter"):
            training.step(**batch(1))
    assert training.step_count == 1
    with repeated(1):
        training.step(**batch(1))
    assert same(training.state_dict(), state)


def test_another_device_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    training = trained()
    training.step(**batch())
    executable = training._executable
    assert isinstance(executable, RestartingExecutable)
    other = dataclasses.replace(executable.device.target, subgroup_size=None)
    lose()
    monkeypatch.setattr(executable.device, "target", other)
    with pytest.raises(DeviceLostError, match="differs: compile again, and load a checkpoint"):
        training.step(**batch())


def test_trainings_share_the_new_device() -> None:
    first, second = trained(), trained()
    for each in (first, second):
        each.step(**batch())
    lose()
    for each in (first, second):
        with repeated(1):
            each.step(**batch())
    for each in (first, second):
        assert isinstance(each._executable, RestartingExecutable)
        assert each._executable.device is WebGPUDevice()


def test_a_training_is_let_go_at_once() -> None:
    training = trained()
    predict = training.attach(lambda model, x: model(x), inputs={"x": (4, 3)})
    training.run(3, batch())
    lose()
    with repeated(3):
        predict(x=batch()["x"])
    gone = weakref.ref(training._executable)
    gc.collect()
    gc.disable()
    try:
        del training, predict
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_loaded_training_goes_on(accumulate: int, tmp_path: Path) -> None:
    losses, state = uninterrupted(accumulate=accumulate)
    compiled(device="wgpu", accumulate=accumulate).save(tmp_path / "training")
    training = tg.load(tmp_path / "training", device="wgpu", on_device_lost="restart", snapshot_every=5)
    results: list[Any] = []
    for number in range(STEPS):
        if number == 7:
            lose()
            with repeated(2):
                results.append(training.step(**batch(number)))
        else:
            results.append(training.step(**batch(number)))
    assert bits(results) == losses
    parameters = training.parameters()
    assert same(parameters, {name: value for name, value in state.items() if name in parameters})


def test_a_loaded_function_goes_on(tmp_path: Path) -> None:
    inputs = {"x": (4, 3)}
    predict = compiled(device="wgpu").attach(lambda model, x: model(x), inputs=inputs)
    expected = np.asarray(predict(x=batch()["x"]))
    predict.save(tmp_path / "function")
    loaded = tg.load(tmp_path / "function", device="wgpu", on_device_lost="restart")
    result = loaded(x=batch()["x"])
    lose()
    with repeated(0):
        np.testing.assert_array_equal(result, expected)
    plain = tg.load(tmp_path / "function", device="wgpu")
    lose()
    with pytest.raises(DeviceLostError):
        plain(x=batch()["x"])
    with pytest.raises(OptionError, match="on_device_lost must be one of raise, restart, got 'ignore'"):
        tg.load(tmp_path / "function", on_device_lost=cast(Any, "ignore"))


def test_jitted_functions_go_on() -> None:
    function = tg.jit(lambda x: (tg.sum(x * 2, axis=0), tg.exp(x)), device="wgpu", on_device_lost="restart")
    plain = tg.jit(lambda x: tg.sum(x * 2, axis=0), device="wgpu")
    small, large = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((40, 3), np.float32)
    total, powers = function(small)
    plain(small)
    small[:] = 0  # a caller may use its array again
    array = tg.array(large)
    function(array)
    lose()
    with repeated(0):
        np.testing.assert_array_equal(total, [6, 10, 14])
    np.testing.assert_allclose(powers, np.exp(np.arange(6).reshape(2, 3)), rtol=1e-5)
    with repeated(0):
        np.testing.assert_array_equal(function(array)[0], [80, 80, 80])
    np.testing.assert_array_equal(function(array)[0], [80, 80, 80])
    np.testing.assert_array_equal(function(np.ones((5, 3)))[0], [10, 10, 10])  # compiled on the new device
    with pytest.raises(DeviceLostError):
        plain(small)
    for device in ("numpy", "cpu"):
        with pytest.raises(OptionError, match="on_device_lost='restart' is for a device that can be lost"):
            tg.jit(lambda x: x, device=device, on_device_lost="restart")(small)


def test_eager_tensors_go_on() -> None:
    x = tg.tensor([1.0, 2.0, 3.0], device="wgpu", requires_grad=True)
    y = (x * x).sum()
    y.backward()
    hidden = x * 3
    assert isinstance(hidden, tg.Array) and hidden.tensor_device is not None
    hidden.tensor_device.synchronize()  # computed, and on the device alone
    lose()
    with repeated(0):
        assert hidden.tolist() == [3.0, 6.0, 9.0]
    assert x.grad is not None and x.grad.tolist() == [2.0, 4.0, 6.0]  # of the same block
    other = tg.tensor([1.0, 1.0, 1.0], device="wgpu")
    assert (other + x).tolist() == [2.0, 3.0, 4.0]


def test_results_that_nobody_reads_cost_each_call_little(monkeypatch: pytest.MonkeyPatch) -> None:
    training = trained()
    predict = training.attach(lambda model, x: model(x), inputs={"x": (4, 3)})
    asked: list[int] = []
    pending = restarting.Step.pending

    def counted(self: restarting.Step) -> Any:
        asked.append(1)
        return pending(self)

    monkeypatch.setattr(restarting.Step, "pending", counted)
    count = 60
    unread = [predict(x=batch()["x"]) for _ in range(count)]
    assert len(asked) < 3 * count
    unread.clear()
    for _ in range(2 * count):
        predict(x=batch()["x"])
    assert isinstance(training._executable, RestartingExecutable)
    assert training._executable._journal.passing < 3


def test_what_may_be_asked_for() -> None:
    with pytest.raises(OptionError, match="on_device_lost must be one of raise, restart, got 'ignore'"):
        compiled(device="wgpu", on_device_lost="ignore")
    for every in (0, True, 1.5):
        with pytest.raises(OptionError, match="snapshot_every must be a positive integer"):
            trained(snapshot_every=every)
    for device in ("numpy", "cpu"):
        with pytest.raises(OptionError, match="on_device_lost='restart' is for a device that can be lost"):
            compiled(device=device, on_device_lost="restart")
    changed = trained(snapshot_every=7).replace_model()
    assert isinstance(changed._executable, RestartingExecutable)
    assert changed._executable._journal.every == 7
