"""`tg.from_torch`: training, forms, names, states, randomness, and errors."""

from __future__ import annotations

import copy
import inspect
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_comparison import differences

import tensorgrad as tg


class Block(nn.Module):
    """Batch norm between convolutions: a module that computes otherwise in training."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean((2, 3)))


class Tied(nn.Module):
    """A language model whose output has the embedding's weight, with a frozen parameter and tables of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.output = nn.Linear(3, 5, bias=False)
        self.output.weight = self.embedding.weight
        self.shift = nn.Parameter(torch.ones(3), requires_grad=False)
        self.signs = nn.Parameter(torch.tensor([1, -1, 1]), requires_grad=False)
        self.register_buffer("order", torch.tensor([2, 0, 1]))
        self.register_buffer("turns", torch.tensor([1.0, 0.5, 0.25]), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens) * self.signs + self.shift
        return self.output(hidden[..., self.order] * self.turns)


def images(count: int = 6, size: int = 5) -> torch.Tensor:
    return torch.randn(count, 1, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_ten_steps_of_training_are_those_of_pytorch(device: tg.DeviceName) -> None:
    torch.manual_seed(0)
    module = Block().train()
    model = tg.from_torch(copy.deepcopy(module), images())
    training = tg.compile(
        model,
        loss=lambda model, x, y: tg.cross_entropy(model(x), y),
        optimizer=tg.optim.sgd(0.2, momentum=0.9),
        inputs={"x": (6, 1, 5, 5), "y": tg.spec(6, "i32")},
        device=device,
    )
    x, y = images(), torch.tensor([0, 1, 2, 0, 1, 2])
    optimizer = torch.optim.SGD(module.parameters(), 0.2, momentum=0.9)
    for _ in range(10):
        optimizer.zero_grad()
        expected = F.cross_entropy(module(x), y)
        expected.backward()
        optimizer.step()
        loss = training.step(x=x.numpy(), y=y.numpy().astype(np.int32))
        assert math.isclose(float(loss), expected.item(), rel_tol=1e-4)
    state = tg.nn.to_torch(model, training.state_dict())
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})
    assert state["body.1.num_batches_tracked"] == 10
    predict = training.attach(lambda model, x: tg.nn.inference(model)(x), inputs={"x": (6, 1, 5, 5)})
    np.testing.assert_allclose(predict(x=x.numpy()), module.eval()(x).detach().numpy(), atol=1e-5)


def test_other_shapes_are_exported_when_they_are_called() -> None:
    module = Block().eval()
    model = tg.from_torch(module, images(2))
    for x in (images(1), images(4, 9)):
        np.testing.assert_allclose(model(x).numpy(), module(x).detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_parts_of_a_result_that_nothing_reads(mode: str) -> None:
    torch.manual_seed(0)
    bags = torch.tensor([[1, 2, 3], [6, 0, 1]])
    assert max(differences(nn.EmbeddingBag(7, 4, mode=mode), [bags]).values()) < 1e-6


def test_names_sharing_and_what_is_frozen_stay() -> None:
    module = Tied()
    model = tg.from_torch(module, torch.tensor([[1, 4, 4]]))
    assert sorted(model.named_parameters()) == ["embedding.weight", "shift"]
    assert model.output.weight is model.embedding.weight
    assert {name: value.requires_grad for name, value in model.named_parameters().items()} == {
        "embedding.weight": True,
        "shift": False,
    }
    assert not model.named_buffers()
    assert max(differences(module, [torch.tensor([[1, 4, 4]])]).values()) < 1e-6


def test_states_go_both_ways() -> None:
    torch.manual_seed(3)
    module, other = Tied(), Tied()
    model = tg.from_torch(module, torch.tensor([[1, 4]]))
    values = tg.nn.from_torch(model, other.state_dict())
    state = tg.nn.to_torch(model, values)
    assert state.keys() == other.state_dict().keys()
    for name, value in other.state_dict().items():
        np.testing.assert_array_equal(state[name], value.numpy())
    changed = {**other.state_dict(), "order": torch.tensor([0, 1, 2])}
    with pytest.raises(tg.errors.InputError, match="order is a constant of the model"):
        tg.nn.from_torch(model, changed)


def test_a_module_in_eval_has_one_form_and_stays_as_it_is() -> None:
    module = Block().eval()
    module.body.train()
    model = tg.from_torch(module, images())
    assert [part.training for part in module.modules()] == [False, True, True, True, True, False]
    frozen = tg.nn.inference(model)(images())
    assert [part.training for part in module.modules()] == [False, True, True, True, True, False]
    np.testing.assert_allclose(frozen.numpy(), module.eval()(images()).detach().numpy(), atol=1e-6)


def test_the_modes_are_those_of_the_import() -> None:
    module = nn.Sequential(nn.Dropout(0.5)).train()
    model = tg.from_torch(module, torch.ones(100))
    module.eval()
    dropped = model(np.ones(50, np.float32), key=tg.random.key(0)).numpy()  # exported now, for this shape
    assert (dropped == 0).any()


def test_dropout_takes_a_key_and_keeps_its_share() -> None:
    model = tg.from_torch(nn.Dropout(0.25).train(), torch.ones(8, 1000))
    dropped = model(np.ones((8, 1000), np.float32), key=tg.random.key(1)).numpy()
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((dropped == 0).mean() - 0.25) < 0.02
    again = model(np.ones((8, 1000), np.float32), key=tg.random.key(2)).numpy()
    assert (again != dropped).any()
    with pytest.raises(tg.errors.OptionError, match=r"call it with key=.*in PyTorch's aten\.dropout"):
        model(np.ones((8, 1000), np.float32))
    assert (tg.nn.inference(model)(np.ones((8, 1000), np.float32)).numpy() == 1).all()


class Noise(nn.Module):
    """Every kind of random numbers, and channels that are dropped."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "rand": torch.rand_like(x),
            "randn": torch.randn_like(x) * 2 + 1,
            "randint": torch.randint_like(x, 2, 6),
            "bernoulli": torch.bernoulli(torch.full_like(x, 0.3)),
            "uniform": torch.empty_like(x).uniform_(2, 4),
            "exponential": torch.empty_like(x).exponential_(2.0),
            "channels": F.dropout2d(x.reshape(500, 40, 1, 1), 0.25),
        }


def test_random_numbers_have_the_distributions_of_pytorch() -> None:
    model = tg.from_torch(Noise(), torch.ones(20000))
    drawn = {name: value.numpy() for name, value in model(torch.ones(20000), key=tg.random.key(3)).items()}
    expected = {
        "rand": (0.5, 1 / 12**0.5),
        "randn": (1.0, 2.0),
        "randint": (3.5, 1.25**0.5),
        "bernoulli": (0.3, 0.21**0.5),
        "uniform": (3.0, 2 / 12**0.5),
        "exponential": (0.5, 0.5),
        "channels": (1.0, (1 / 3) ** 0.5),
    }
    for name, (mean, deviation) in expected.items():
        bound = 5 * deviation / 20000**0.5
        assert abs(drawn[name].mean() - mean) < bound, name
        assert abs(drawn[name].std() - deviation) < 0.05 * deviation, name
    assert set(np.unique(drawn["randint"])) == {2, 3, 4, 5}


def test_structures_of_arguments_and_results() -> None:
    class Structured(nn.Module):
        def forward(self, pair: tuple[torch.Tensor, torch.Tensor], *, scale: float = 1.0) -> dict[str, Any]:
            first, second = pair
            return {"sum": first + second * scale, "parts": [first, None]}

    model = tg.from_torch(Structured(), (torch.ones(2), torch.ones(2)), scale=3.0)
    result = model((np.ones(2, np.float32), np.ones(2, np.float32)), scale=3.0)
    assert result["parts"][1] is None
    np.testing.assert_array_equal(result["sum"].numpy(), [4, 4])
    with pytest.raises(tg.errors.InputError, match=r"was exported with 3\.0, got 2\.0"):
        model((np.ones(2, np.float32), np.ones(2, np.float32)), scale=2.0)
    with pytest.raises(tg.errors.InputError, match=re.escape("like the example's, ((…, …), scale=…), got (…)")):
        model(np.ones(2, np.float32))


def test_dtypes() -> None:
    double = tg.from_torch(nn.Linear(3, 2).double(), torch.ones(1, 3, dtype=torch.float64))
    assert double(np.ones((1, 3))).dtype == np.float64
    with pytest.raises(tg.errors.InputError, match="tensor 0 of the call is f32, expected f64"):
        double(tg.ones(1, 3))
    with pytest.raises(tg.errors.DTypeError, match="outside of i32"):
        tg.from_torch(nn.Embedding(3, 2), torch.tensor([1]))(torch.tensor([2**40]))


def test_the_whole_module_is_inside_another() -> None:
    class Head(tg.nn.Module):
        def __init__(self, body: tg.nn.Module):
            self.body = body
            self.scale = tg.nn.param((3,), 2.0)

        def __call__(self, x: Any) -> tg.Tensor:
            return self.body(x) * self.scale

    module = Block().eval()
    model = Head(tg.from_torch(module, images()))
    assert "body.body.0.weight" in model.named_parameters()
    np.testing.assert_allclose(
        model.initialized()(images().numpy()).numpy(), module(images()).detach().numpy() * 2, atol=1e-5
    )


def test_ops_have_the_lines_and_paths_of_the_author() -> None:
    traced = tg.trace(lambda model, x: model(x), tg.from_torch(Block().eval(), images()), (6, 1, 5, 5))
    lines, first = inspect.getsourcelines(Block.forward)
    called = first + next(number for number, line in enumerate(lines) if "return" in line)
    locations = {str(op.location) for op in traced.walk()}
    assert any(f'test_from_torch.py":{called}' in place and '"head"' in place for place in locations), locations


class Branching(nn.Module):
    """Control flow that depends on values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x


class Unknown(nn.Module):
    """An op that has no rule and no decomposition."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Identity(), Sampling())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Sampling(nn.Module):
    """Samples indices."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(x, 2)


def test_what_is_unsupported_is_named_with_its_module_and_line() -> None:
    with pytest.raises(tg.errors.OptionError, match=r"torch\.export refuses Branching.*test_from_torch\.py:\d+"):
        tg.from_torch(Branching(), torch.ones(2))
    rule = r"no rule for what is in PyTorch's aten\.multinomial of `inner\.1` \(Sampling\), .*test_from_torch\.py:\d+"
    with pytest.raises(tg.errors.OptionError, match=rf"test_from_torch\.py:\d+: from_torch: there is {rule}"):
        tg.from_torch(Unknown(), torch.ones(4))
    with pytest.raises(tg.errors.ArgumentError, match=r"takes a torch\.nn\.Module .* got dict"):
        no_module: Any = {}
        tg.from_torch(no_module, torch.ones(2))


class KeyCache:
    """What a language model of transformers returns besides its scores, unless it is told not to."""


class Cached(nn.Module):
    """A module that returns an object."""

    def forward(self, x: torch.Tensor, use_cache: bool = True) -> Any:
        return (x * 2, KeyCache()) if use_cache else x * 2


def test_results_that_are_no_trees_of_tensors_are_named() -> None:
    with pytest.raises(tg.errors.OptionError, match=r"it returns a .*\.KeyCache, .*; use_cache=False leaves it out$"):
        tg.from_torch(Cached(), torch.ones(2))
    model = tg.from_torch(Cached(), torch.ones(2), use_cache=False)
    assert model(np.ones(2), use_cache=False).tolist() == [2, 2]


def test_every_rule_is_named_once_and_listed() -> None:
    from tensorgrad.importers.torch import supported

    names = [name for family in supported().values() for name in family]
    assert len(names) == len(set(names)) > 300
