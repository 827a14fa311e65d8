"""Gradient accumulation over micro-batches: the update is that of one large batch, and of PyTorch's loop."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from models import MLP, compiled, squared_error
from test_fit import StopAt, error_of, fitted, same
from test_fit import data as batches
from test_fit import training as noisy_training

import tensorgrad as tg
from tensorgrad.dialects.functions import find_function
from tensorgrad.driver.compiling.running import Phases, run_passes
from tensorgrad.driver.stepping.accumulation import ALIGNMENT, bytes_of_outputs
from tensorgrad.errors import InputError, OptionError, ProgramError
from tensorgrad.passes.tensors.accumulate_gradients import AccumulateGradientsPass
from tensorgrad.passes.tensors.grad import GradPass
from tensorgrad.runtime.program import Dispatch
from tensorgrad.runtime.webgpu import WebGPUExecutable
from tensorgrad.tools.parsing import parse_module
from tensorgrad.train.callbacks import Checkpoints

DEVICES = ["numpy", "cpu", "wgpu"]
GROUPS = {"layers.1.*": {"learning_rate": 3e-3}, "*.bias": {"weight_decay": 0.0}}
OPTIMIZERS = {
    "sgd": tg.optim.sgd(0.1, momentum=0.9),
    "adamw": tg.optim.adamw(1e-2, weight_decay=0.1, decay="*.weight"),
    "clipped": tg.optim.adamw(1e-2, clip_norm=0.3, groups=GROUPS),
    "rmsprop": tg.optim.rmsprop(1e-2, clip_norm=0.5, centered=True),
    "lion": tg.optim.lion(tg.optim.schedules.cosine(1e-2, 5, warmup=2), weight_decay=0.1),
}
MICRO = 3


def examples(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=(count, n)).astype(np.float32) for name, n in (("x", 3), ("y", 2))}


def part(arrays: dict[str, np.ndarray], number: int, size: int = 4) -> dict[str, np.ndarray]:
    return {name: value[number * size : (number + 1) * size] for name, value in arrays.items()}


def close(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float = 2e-6) -> bool:
    return all(np.allclose(actual[name], expected[name], rtol=tolerance * 10, atol=tolerance) for name in expected)


def test_results_are_aligned_where_memory_is_planned():
    text = "func.func @f(%x: tensor<9x10xf64>, %y: tensor<f32>, %z: tensor<64xf32>) -> (tensor<9x10xf64>, tensor<f32>, "
    text += "tensor<64xf32>) { func.return %x, %y, %z : tensor<9x10xf64>, tensor<f32>, tensor<64xf32> }"
    assert bytes_of_outputs(find_function(parse_module(text, "f"), "f")) == (3 + 1 + 1) * ALIGNMENT


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_that_of_one_large_batch(name, device):
    large = compiled(optimizer=OPTIMIZERS[name], inputs={"x": (12, 3), "y": (12, 2)}, device=device)
    small = compiled(optimizer=OPTIMIZERS[name], device=device, accumulate=MICRO)
    for step in range(4):
        arrays = examples(12, step)
        rate = small.learning_rate
        expected = float(large.step(**arrays))
        before = small.parameters()
        losses = []
        for number in range(MICRO):
            assert same(small.parameters(), before) and small.step_count == step
            assert (small.accumulated, small.learning_rate) == (number, rate)
            losses.append(float(small.step(**part(arrays, number))))
        assert np.isclose(np.mean(losses), expected, rtol=1e-5)
        assert (small.accumulated, small.step_count, small.learning_rate) == (0, step + 1, large.learning_rate)
        assert close(small.parameters(), large.parameters())
    state, other = small.state_dict(), large.state_dict()
    assert state.keys() - other.keys() == {
        *(f"optimizer/accumulated/{path}" for path in small.parameters()),
        "training/accumulated",
    }
    assert close(state, {key: value for key, value in other.items() if value.dtype.kind == "f"}, 1e-5)


class Normed(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = tg.nn.Linear(3, 5), tg.nn.BatchNorm1d(5), tg.nn.Linear(5, 2)

    def __call__(self, x: Any) -> Any:
        return self.last(tg.tanh(self.norm(self.first(x))))


class NormedInTorch(torch.nn.Module):
    def __init__(self, start: dict[str, np.ndarray]):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2)
        for name in ("first", "last"):
            layer = getattr(self, name)
            layer.weight.data = torch.tensor(start[f"{name}.weight"].T.copy())
            layer.bias.data = torch.tensor(start[f"{name}.bias"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.norm(self.first(x))))


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
def test_a_step_is_that_of_the_loop_in_pytorch(device):
    training = compiled(
        model=Normed(), optimizer=tg.optim.adamw(1e-2, eps=1e-4, clip_norm=0.5), device=device, accumulate=MICRO
    )
    other = NormedInTorch(training.parameters())
    optimizer = torch.optim.AdamW(other.parameters(), lr=1e-2, eps=1e-4)
    for step in range(5):
        arrays = examples(4 * MICRO, step)
        optimizer.zero_grad()
        for number in range(MICRO):
            batch = part(arrays, number)
            training.step(**batch)
            loss = torch.nn.functional.mse_loss(other(torch.tensor(batch["x"])), torch.tensor(batch["y"])) / MICRO
            loss.backward()
            assert np.allclose(training.buffers()["norm.running_mean"], np.asarray(other.norm.running_mean), atol=1e-5)
        torch.nn.utils.clip_grad_norm_(other.parameters(), 0.5)
        optimizer.step()
    expected = {name: value.detach().numpy() for name, value in other.named_parameters()}
    for name, value in training.parameters().items():
        theirs = expected[name].T if name.endswith("t") and value.ndim == 2 else expected[name]
        assert np.allclose(value, theirs, rtol=1e-4, atol=2e-5), name
    assert np.allclose(training.buffers()["norm.running_var"], np.asarray(other.norm.running_var), rtol=1e-4)


class Text(tg.nn.Module):
    """A small transformer with a tied embedding, so that gradients come from scatters, reductions and contractions."""

    def __init__(self, blocks: int = 1) -> None:
        super().__init__()
        self.embedding = tg.nn.Embedding(11, 8)
        self.places = tg.nn.param((6, 8), 0.1)
        self.blocks = [self.block() for _ in range(blocks)]
        self.norm = tg.nn.LayerNorm(8)

    def block(self) -> dict[str, Any]:
        return {
            "first": tg.nn.LayerNorm(8),
            "attention": tg.nn.MultiHeadAttention(8, 2, causal=True),
            "second": tg.nn.LayerNorm(8),
            "mlp": tg.nn.MLP(8, 16, 8),
        }

    def __call__(self, tokens: Any) -> Any:
        x = self.embedding(tokens) + self.places
        for block in self.blocks:
            x = x + block["attention"](block["first"](x))
            x = x + block["mlp"](block["second"](x))
        return self.norm(x) @ tg.transpose(self.embedding.weight)


def text_loss(model: Any, tokens: Any) -> Any:
    return tg.cross_entropy(model(tokens)[:, :-1], tokens[:, 1:])


def text_training(blocks: int = 1, **options: Any) -> tg.Training:
    optimizer = options.pop("optimizer", tg.optim.adamw(1e-2, clip_norm=1.0))
    inputs = {"tokens": tg.spec((2, 6), "i32")}
    return tg.compile(Text(blocks), loss=text_loss, optimizer=optimizer, inputs=inputs, device="wgpu", **options)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("blocks", [0, 1])
def test_sums_take_no_dispatches_of_their_own(blocks: int) -> None:
    training, plain = text_training(blocks, accumulate=2), text_training(blocks)
    counts = training.stats()
    # The lower bound for a program of gradients: one whose updates run where gradients are computed.
    ideal = text_training(blocks, optimizer=tg.optim.sgd(0.1)).stats()["dispatches"]
    assert counts["accumulate"]["steps"] == 2 and counts["accumulate"]["dispatches"] <= ideal + 1
    assert counts["dispatches"] <= plain.stats()["dispatches"] + 1 and not counts["copies"]
    assert not counts["accumulate"]["copies"]
    adding = training._programs.declared.accumulation
    assert adding is not None and isinstance(adding.compilation.executable, WebGPUExecutable)
    program = adding.compilation.executable.program
    written = {
        program.buffers[binding.buffer].name
        for step in program.plan
        if isinstance(step, Dispatch)
        for binding in step.bindings
        if binding.access == "read_write"
    }
    assert "accumulated" in written and not written & {"parameters", "adam.m", "adam.v"}
    # The programs share the memory of temporaries; outputs and constants are separate.
    own = program.statistics["peak_bytes"] - adding.compilation.executable.shared_bytes
    assert own == sum(buffer.size for buffer in program.buffers if buffer.role in ("output", "constant"))


@pytest.mark.nightly
def test_sums_through_scatters_are_those_of_the_large_batch():
    tokens = np.random.default_rng(0).integers(0, 11, (4, 6))
    large = tg.compile(
        Text(),
        loss=text_loss,
        optimizer=tg.optim.adamw(1e-2, clip_norm=1.0, eps=1e-4),
        inputs={"tokens": tg.spec((4, 6), "i32")},
        device="wgpu",
    )
    small = text_training(optimizer=tg.optim.adamw(1e-2, clip_norm=1.0, eps=1e-4), accumulate=2)
    for _ in range(2):
        large.step(tokens=tokens)
        small.run(2, [{"tokens": tokens[:2]}, {"tokens": tokens[2:]}])
    assert small.step_count == 2 and close(small.parameters(), large.parameters(), 2e-5)


def keyed(model: Any, x: Any, y: Any, key: Any) -> Any:
    return squared_error(model, x, y), {"drawn": tg.random.uniform(key, ())}


def test_micro_batches_have_keys_of_their_own():
    training, plain = (compiled(loss=keyed, seed=4, accumulate=n) for n in (2, 1))
    drawn = [[float(micro.step(**part(examples(4), 0))[1]["drawn"]) for _ in range(5)] for micro in (training, plain)]
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 5


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
def test_a_place_within_a_step_is_part_of_the_state(device, tmp_path):
    make = {"loss": keyed, "optimizer": tg.optim.adamw(1e-2, clip_norm=0.3), "device": device, "accumulate": MICRO}
    training, twin = compiled(**make, seed=1), compiled(**make, seed=2)
    arrays = examples(40)
    for number in range(5):
        training.step(**part(arrays, number))
    state = training.state_dict()
    assert (state["training/step"], state["training/accumulated"]) == (1, 2)
    training.save_checkpoint(tmp_path / "state.safetensors")
    twin.step(**part(arrays, 9))
    twin.load_checkpoint(tmp_path / "state.safetensors")
    assert (twin.step_count, twin.accumulated) == (1, 2) and same(twin.state_dict(), state)
    for number in range(5, 9):
        losses = [float(each.step(**part(arrays, number))[0]) for each in (training, twin)]
        assert losses[0] == losses[1]
        # Looking at it changes nothing.
        twin.evaluate(squared_error, [part(arrays, 0)])
    assert same(training.state_dict(), twin.state_dict())
    training.reset()
    assert (training.step_count, training.accumulated) == (0, 0) and same(
        training.state_dict(), compiled(**make, seed=1).state_dict()
    )


def test_a_place_that_there_is_not_is_refused():
    training = compiled(accumulate=2)
    state = training.state_dict()
    with pytest.raises(InputError, match="training/accumulated must be from 0 to 1"):
        training.load_state_dict({**state, "training/accumulated": np.array(2)})
    with pytest.raises(InputError, match=r"missing: .*accumulated/layers\.0\.weight.*training/accumulated"):
        training.load_state_dict(compiled().state_dict())
    assert same(training.state_dict(), state)
    # Without the accumulated sums, a new step begins.
    training.step(**part(examples(4), 0))
    older_state = {**compiled().state_dict(), "training/accumulated": np.array(0)}
    training.load_state_dict(older_state, strict=False, parts=["model", "optimizer", "settings"])
    assert training.accumulated == 0


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_a_sum_that_is_no_number_ends_with_its_step(device):
    training, other = (compiled(device=device, accumulate=2, optimizer=tg.optim.sgd(0.1)) for _ in range(2))
    batch = part(examples(4), 0)
    training.step(**{**batch, "x": batch["x"] * np.nan})
    training.step(**batch)
    assert all(np.isnan(value).all() for value in training.parameters().values())
    training.load_parameters(other.parameters())
    for _ in range(2):
        for stepped in (training, other):
            stepped.step(**batch)
    assert same(training.parameters(), other.parameters())


def test_what_is_refused_changes_nothing():
    training = compiled(accumulate=2)
    state = training.state_dict()
    with pytest.raises(InputError, match="missing input 'y'"):
        training.step(x=examples(4)["x"])
    assert same(training.state_dict(), state)


def test_half_floats_are_added_up_in_single_precision():
    class Half(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tg.nn.param((3,), 0.5, dtype="f16")

    def loss(model: Any, x: Any) -> Any:
        return tg.sum(tg.cast(model.w, "f32") * x)

    training = tg.compile(Half(), loss=loss, optimizer=tg.optim.sgd(1.0), inputs={"x": 3}, device="numpy", accumulate=2)
    assert training.state_dict()["optimizer/accumulated/w"].dtype == np.float32
    # Their sum is beyond what half floats hold, their mean is not.
    training.run(2, [{"x": np.full(3, 60000.0, np.float32)}, {"x": np.full(3, 5000.0, np.float32)}])
    assert np.array_equal(training.parameters()["w"], np.full(3, 0.5 - 32500.0, np.float16))


@pytest.mark.nightly
def test_frozen_parameters_have_no_sums():
    model = MLP(3, 5, 2)
    model.freeze("layers.0.*")
    training = compiled(model=model, accumulate=2, optimizer=tg.optim.adamw(1e-2, clip_norm=1.0), device="wgpu")
    sums = [name for name in training.state_dict() if "accumulated/" in name]
    assert sums == ["optimizer/accumulated/layers.1.weight", "optimizer/accumulated/layers.1.bias"]
    before = training.parameters()
    training.run(4, part(examples(4), 0))
    changed = {name for name, value in training.parameters().items() if not np.array_equal(value, before[name])}
    assert changed == {"layers.1.weight", "layers.1.bias"}


@pytest.mark.nightly
def test_a_memory_limit_is_for_both_programs():
    def deep(**options: Any) -> tg.Training:
        def loss(model: Any, x: Any, y: Any) -> Any:
            return tg.mean((model(x) - y) ** 2)

        inputs = {"x": (256, 16), "y": (256, 16)}
        return compiled(
            model=MLP(*[16] * 8),
            loss=loss,
            inputs=inputs,
            accumulate=2,
            device="wgpu",
            optimizer=tg.optim.sgd(0.1),
            **options,
        )

    def peak_bytes(training: tg.Training) -> int:
        adding = training._programs.declared.accumulation
        assert adding is not None and isinstance(adding.compilation.executable, WebGPUExecutable)
        executable = adding.compilation.executable
        own = executable.program.statistics["peak_bytes"] - executable.shared_bytes
        return training.program.statistics["peak_bytes"] + own

    most = peak_bytes(deep())
    limited = deep(memory_limit=np.int64(0.8 * most))
    assert peak_bytes(limited) <= 0.8 * most
    with pytest.raises(ProgramError, match="memory_limit"):
        deep(memory_limit=1000)


FIT: dict[str, Any] = {"steps": 8, "evaluate_every": 3}


@pytest.mark.in_turns(6, 1)
@pytest.mark.parametrize(("killed", "every"), [(1, None), (2, None), (4, None), (8, None), (1, 2), (5, 2)])
def test_a_run_that_failed_goes_on_bit_for_bit(killed, every, tmp_path):
    # Epochs of five batches: checkpoints that come with them lie within steps.
    def files(folder: str) -> Checkpoints:
        return Checkpoints(tmp_path / folder / "checkpoints", every, keep=2)

    whole, parts = (noisy_training(accumulate=MICRO) for _ in range(2))
    expected = fitted(whole, tmp_path / "whole", checkpoint=files("whole"), **FIT)
    with pytest.raises(RuntimeError, match="killed"):
        fitted(parts, tmp_path / "parts", callbacks=[StopAt(killed)], checkpoint=files("parts"), **FIT)
    other = noisy_training(accumulate=MICRO, seed=8 if files("parts").latest() else 3)
    report = fitted(other, tmp_path / "parts", checkpoint=files("parts"), resume=True, **FIT)
    assert same(other.state_dict(), whole.state_dict())
    assert report.losses.tolist() == expected.losses.tolist() and report.evaluations == expected.evaluations
    for file in ("log.csv", f"checkpoints/{files('parts').path(8).name}"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_fit_counts_updates():
    training, other = (noisy_training(accumulate=MICRO) for _ in range(2))
    report = fitted(training, **FIT)
    stream = itertools.chain.from_iterable(itertools.repeat(batches()))
    losses = [float(other.step(**batch)[0]) for batch in itertools.islice(stream, 8 * MICRO)]
    assert same(training.state_dict(), other.state_dict()) and report.step == 8 and report.epoch == 4
    means = np.mean(np.reshape(losses, (8, MICRO)), axis=1).astype(np.float32)
    assert report.losses.tolist() == means.astype(np.float64).tolist()
    assert [step for step, _ in report.evaluations] == [3, 6, 8]
    assert report.evaluations[-1][1] == error_of(other)


def test_what_an_epoch_leaves_goes_into_the_next_step(tmp_path: Path):
    training, other = (noisy_training(accumulate=MICRO) for _ in range(2))
    options: dict[str, Any] = {"steps": None, "evaluate_every": None, "evaluate": None, "progress": False}
    source = batches()
    assert fitted(training, data=source, epochs=1, **options).step == 1 and training.accumulated == 2
    assert fitted(training, data=source, epochs=2, **options).step == 5 and training.accumulated == 0
    assert fitted(other, epochs=3, **options).step == 5
    assert same(training.state_dict(), other.state_dict())


@pytest.mark.parametrize("accumulate", [0, -1, 1.5, True, "2", None])
def test_what_is_no_number_of_micro_batches_is_refused(accumulate):
    with pytest.raises(OptionError, match="accumulate must be a positive integer"):
        compiled(accumulate=accumulate)


def test_one_micro_batch_is_the_plain_step():
    plain, micro = compiled(), compiled(accumulate=1)
    assert micro.module() == plain.module() and micro.accumulate == 1 and "accumulate" not in micro.stats()


def test_sums_need_gradients():
    module = tg.trace(lambda x: tg.sum(x), 3)
    with pytest.raises(ProgramError, match="run grad first"):
        run_passes(module, [AccumulateGradientsPass(steps=2)], Phases())
    run_passes(module, [GradPass()], Phases())
    before = str(module)
    with pytest.raises(ProgramError, match="steps must be at least 2"):
        run_passes(module, [AccumulateGradientsPass(steps=1)], Phases())
    assert str(module) == before
