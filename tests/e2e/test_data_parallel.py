"""A step run by a group of processes has the results of a single process with the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from parallel_models import BATCH, MODELS, STEPS, batches, compiled, trained

import tensorgrad as tg
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.group.simulated import simulate

TIMEOUT = 300.0
CLOSE = 1e-6


def on_group(name: str, device: Any, size: int, steps: int = STEPS, **options: Any) -> list[dict[str, Any]]:
    return simulate(size, lambda group: trained(name, device, group, steps, **options), timeout=TIMEOUT)


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("shard", [None, "optimizer"])
def test_losses_are_those_of_the_whole_batch(name: str, device: str, size: int, shard: Any) -> None:
    alone = trained(name, device, None)
    ranks = on_group(name, device, size, shard=shard)
    for rank in ranks:
        np.testing.assert_allclose(rank["losses"], alone["losses"], rtol=CLOSE)
        np.testing.assert_allclose(rank["accuracy"], alone["accuracy"], atol=1.01 / BATCH)
        assert rank["losses"] == ranks[0]["losses"]
        for path, value in rank["parameters"].items():
            np.testing.assert_array_equal(value, ranks[0]["parameters"][path])


@pytest.mark.nightly
@pytest.mark.parametrize("name", MODELS)
def test_on_wgpu(name: str) -> None:
    alone = trained(name, "wgpu", None, 5)
    for rank in on_group(name, "wgpu", 2, 5):
        np.testing.assert_allclose(rank["losses"], alone["losses"], rtol=CLOSE)


@pytest.mark.nightly
@pytest.mark.parametrize("name", MODELS)
def test_the_same_run_has_the_same_bits(name: str) -> None:
    first, second = (on_group(name, "cpu", 4, 10) for _ in range(2))
    assert first[0]["losses"] == second[0]["losses"]
    for path, value in first[0]["parameters"].items():
        np.testing.assert_array_equal(value, second[0]["parameters"][path])


def other_loss(model: Any, x: Any, power: int) -> Any:
    """A loss that differs only in a constant."""
    return tg.mean(model(x, None) ** (2 + power))


@pytest.mark.nightly
def test_micro_batches_are_exchanged_once() -> None:
    """Sums of micro-batches stay local; only the last micro-batch's program exchanges them."""
    alone = trained("mlp", "cpu", None, 12, accumulate=3)
    for rank in on_group("mlp", "cpu", 2, 12, accumulate=3):
        np.testing.assert_allclose(rank["losses"], alone["losses"], rtol=CLOSE)

    def calls(group: Group) -> list[int]:
        training = compiled("mlp", "cpu", group, accumulate=3)
        traffic = []
        for batch in batches(12, 6):
            before = group.traffic.bytes_sent
            training.step(**batch)
            traffic.append(group.traffic.bytes_sent - before)
        return traffic

    sent = simulate(2, calls, timeout=TIMEOUT)[0]
    assert sent[:3] == sent[3:]
    assert sent[0] == sent[1] == 2 * 256  # the loss and the accuracy, each where a device can bind it
    parameters = 12 * 24 + 24 + 24 * 4 + 4
    assert sent[2] >= 4 * parameters


@pytest.mark.nightly
def test_a_step_has_one_message() -> None:
    """Gradients of all parameters, the loss and a metric."""
    assert on_group("mlp", "cpu", 2, 1)[0]["statistics"]["collectives"] == 1


@pytest.mark.nightly
@pytest.mark.parametrize("shard", [None, "optimizer"])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_gradients_are_sent_once(clip: float | None, shard: Literal["optimizer"] | None) -> None:
    """Also if their norm is needed before the update, and if the update is sharded."""

    def sent(group: Group) -> tuple[int, int]:
        training = tg.compile(
            tg.nn.MLP(16, (64,), 8),
            loss=lambda model, x: tg.mean(tg.square(model(x))),
            optimizer=tg.optim.adam(1e-2, clip_norm=clip),
            inputs={"x": (BATCH, 16)},
            device="cpu",
            group=group,
            shard=shard,
        )
        before = group.traffic.bytes_sent
        training.step(x=np.ones((BATCH, 16), np.float32))
        return group.traffic.bytes_sent - before, sum(value.nbytes for value in training.parameters().values())

    for bytes_sent, parameters in simulate(2, sent, timeout=TIMEOUT):
        assert parameters <= bytes_sent <= 1.4 * parameters  # with padding, the loss, and the norm


@pytest.mark.nightly
@pytest.mark.parametrize("size", [2, 4])
def test_shards_of_the_state(size: int) -> None:
    """Each process keeps an equal part of every state that can be divided equally."""

    def sizes(group: Group | None, shard: Literal["optimizer"] | None = None) -> dict[str, int]:
        program = compiled("cnn with batch norm", "cpu", group, shard=shard).program
        return {slot.name: slot.size for slot in program.slots("state").values()}

    whole = sizes(None)
    for own in simulate(size, lambda group: sizes(group, "optimizer"), timeout=TIMEOUT):
        state = [name for name in whole if name.startswith("adam.")]
        assert sum(own[name] for name in state) == sum(whole[name] for name in state) // size
        assert all(own[name] == whole[name] for name in whole if name not in state)


@pytest.mark.nightly
def test_half_precision() -> None:
    alone = trained("mlp", "cpu", None, 10, precision="f16", loss_scale=256.0)
    for rank in on_group("mlp", "cpu", 2, 10, precision="f16", loss_scale=256.0):
        np.testing.assert_allclose(rank["losses"], alone["losses"], rtol=2e-4)


def test_a_part_of_the_batch_is_taken_as_it_is() -> None:
    def run(group: Group) -> tuple[float, float]:
        batch = batches(12, 1)[0]
        whole, part = (compiled("mlp", "numpy", group) for _ in range(2))
        return float(whole.step(**batch)[0]), float(part.step(**tg.distributed.shard(batch))[0])

    for whole, part in simulate(2, run, timeout=TIMEOUT):
        assert whole == part


def test_errors() -> None:
    def run(group: Group) -> None:
        with pytest.raises(tg.errors.OptionError, match="but 16 examples are not divisible by 3"):
            compiled("mlp", "numpy", group)
        with pytest.raises(tg.errors.OptionError, match="there is no input 'z'; the inputs are x, y, key"):
            compiled("mlp", "numpy", group, replicated=("z",))
        with pytest.raises(tg.errors.OptionError, match="shard must be 'optimizer' or None, got 'all'"):
            compiled("mlp", "numpy", group, shard="all")
        with pytest.raises(tg.errors.OptionError, match="verify is for a process on its own"):
            compiled("mlp", "numpy", group, replicated=("x", "y"), verify=True)

    simulate(3, run, timeout=TIMEOUT)
    with pytest.raises(tg.errors.OptionError, match=r"group must be what tg\.distributed\.group\(\) gives, or None"):
        no_group: Any = 2
        compiled("mlp", "numpy", no_group)


@pytest.mark.in_turns(4)
@pytest.mark.parametrize(
    ("what", "differs"),
    [
        ("seed", lambda rank: {"seed": rank}),
        ("shard and replicated", lambda rank: {"replicated": ("x",) if rank else ("y",)}),
        ("accumulate", lambda rank: {"accumulate": rank + 1}),
        ("the settings", lambda rank: {"optimizer": tg.optim.sgd(0.1 * (rank + 1), momentum=0.9)}),
        ("the settings", lambda rank: {"optimizer": tg.optim.sgd(0.1, momentum=0.9 - 0.1 * rank)}),
        (
            "the loss, the model or the optimizer",
            lambda rank: {"loss": lambda model, x, y, key: other_loss(model, x, rank)},
        ),
    ],
)
def test_processes_that_compile_otherwise(what: str, differs: Callable[[int], dict[str, Any]]) -> None:
    """Every process raises an error before a step runs."""

    def run(group: Group) -> str:
        with pytest.raises(tg.errors.GroupError) as error:
            compiled("mlp", "cpu", group, **differs(group.rank))
        return str(error.value)

    first, second = simulate(2, run, timeout=TIMEOUT)
    assert first == second
    assert f"the ranks do not agree on {what}" in first
