"""Calls of public functions: argument names of other libraries, and error messages of invalid calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import ArgumentError, OptionError, ShapeError, TraceError
from tensorgrad.surface import calls

untyped: Any = tg
X: Any = tg.array(np.arange(6, dtype=np.float32).reshape(2, 3))


def mean_square(model: Any, x: Any) -> Any:
    return tg.mean(model(x) ** 2)


def training(**options: Any) -> Any:
    settings = {"loss": mean_square, "optimizer": tg.optim.sgd(0.1), "inputs": {"x": (4, 3)}, "device": "numpy"}
    return untyped.compile(tg.nn.Linear(3, 2), **{**settings, **options})


class OnlyForward(tg.nn.Module):
    def forward(self, x: Any) -> Any:
        return x


MISFITS: dict[str, tuple[Callable[[], Any], str]] = {
    "function": (
        lambda: untyped.sum(X, axes=1),
        r"sum\(\) has no argument 'axes'; it is axis here; it takes \(x, axis",
    ),
    "method": (lambda: X.sum(axs=1), r"sum\(\) has no argument 'axs'; did you mean axis\?"),
    "nearest": (lambda: X.softmax(wher=1), "did you mean where"),
    "several": (lambda: untyped.relu(X, inplace=True, out=X), "relu.. has no argument 'inplace' and 'out'"),
    "positions": (lambda: untyped.argmax(X, 1, True, 3), r"argmax\(\) takes 3 arguments, got 4"),
    "missing": (
        lambda: untyped.gather(X, 0),
        r"gather\(\) needs the argument 'indices'; it takes \(x, axis, indices\)",
    ),
    "layer": (lambda: untyped.nn.Linear(2, 2, biass=False), r"Linear\(\) has no argument 'biass'; did you mean bias\?"),
    "layer-missing": (lambda: untyped.nn.Linear(2), r"Linear\(\) needs the argument 'out_features'"),
    "layer-call": (lambda: untyped.nn.Identity()(X, X), r"Identity\(\) takes 1 argument, got 2"),
    "optimizer": (lambda: untyped.optim.adam(lr=1e-3), r"adam\(\) has no argument 'lr'; it is learning_rate here"),
    "schedule": (lambda: untyped.optim.schedules.step(1.0, evry=3), "did you mean every"),
    "random": (lambda: untyped.random.normal(tg.random.key(0), shap=(2,)), "did you mean shape"),
    "data": (
        lambda: untyped.data.batches({"x": np.ones(4)}, batch_size=2),
        r"batches\(\) has no argument 'batch_size'",
    ),
    "callback": (lambda: untyped.callbacks.EarlyStop("loss", patient=3), "did you mean patience"),
    "initializer": (lambda: untyped.initializers.constant(valu=1), "did you mean value"),
    "compile": (lambda: training(optimiser=1), r"compile\(\) has no argument 'optimiser'; did you mean optimizer\?"),
    "fit": (lambda: untyped.fit(training(), [], epoch=1), r"fit\(\) has no argument 'epoch'; did you mean epochs\?"),
    "step": (
        lambda: training().step(np.ones((4, 3))),
        r"step\(\) takes no argument by position, got 1.*such as x=",
    ),
    "training": (lambda: training().save_checkpoint(), r"save_checkpoint\(\) needs the argument 'path'"),
    "attached": (
        lambda: training().attach(lambda model, x: model(x), inputs={"x": (1, 3)})(X, X),
        r"\(\) takes 1 input by position, got 2: x=\.\.\.",
    ),
    "same": (lambda: X.sum(axis=1, dim=1), r"sum\(\) got dim= and axis=, which are the same"),
    "same-twice": (lambda: X.sum(1, dim=1), "multiple values for argument 'axis'"),
    "array": (lambda: untyped.Array([1.0]), r"tg\.array makes one of list"),
    "zeros": (lambda: untyped.zeros(), r"zeros\(\) needs a shape"),
    "zeros-dtype": (lambda: untyped.zeros(3, "i32", dtype="f32"), r"zeros\(\) got the dtype twice"),
    "forward": (lambda: OnlyForward()(X), "OnlyForward is called, but defines no __call__; name its forward __call__"),
    "length": (lambda: len(tg.ones(())), "without axes has no length"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_call_that_does_not_fit(name: str) -> None:
    call, message = MISFITS[name]
    with pytest.raises(ArgumentError, match=message) as caught:
        call()
    assert isinstance(caught.value, TypeError) and caught.value.location.startswith(f"{__file__}:")
    assert caught.value.__cause__ is None and caught.value.__suppress_context__ | (caught.value.__context__ is None)


def test_the_line_in_a_traced_function_is_named() -> None:
    def loss(model: Any, x: Any) -> Any:
        return untyped.mean(model(x), axs=0)

    with pytest.raises(ArgumentError, match="did you mean axis") as caught:
        training(loss=loss)
    assert caught.value.location == f"{__file__}:{loss.__code__.co_firstlineno + 1}"


def test_the_axis_of_gather_comes_second() -> None:
    with pytest.raises(ShapeError, match=r"gather: the axis must be an integer, not a tensor of shape \(2,\)"):
        untyped.gather(X, tg.array([0, 1]), 1)


def test_other_libraries_names_of_arguments() -> None:
    numbers = np.asarray(X)
    reductions = "sum amax amin mean prod any all logsumexp argmax argmin norm"
    for name in reductions.split():
        expected = getattr(X, name)(axis=1, keepdims=True)
        assert expected.shape == (2, 1)
        assert np.array_equal(getattr(X, name)(dim=1, keepdim=True), expected), name
        assert np.array_equal(getattr(untyped, name)(X, dim=1, keepdim=True), expected), name
    for name in ("softmax", "log_softmax", "cumsum", "cumprod", "argsort", "flip"):
        assert np.array_equal(getattr(X, name)(dim=0), getattr(X, name)(axis=0)), name
    assert np.array_equal(untyped.concat([X, X], dim=1), np.concatenate([numbers, numbers], axis=1))
    assert np.array_equal(untyped.stack([X, X], dim=1), np.stack([numbers, numbers], axis=1))
    assert untyped.unsqueeze(X, dim=-1).shape == (2, 3, 1) and X.squeeze(dim=()).shape == (2, 3)
    assert np.array_equal(untyped.roll(X, 1, dims=1), np.roll(numbers, 1, axis=1))


PAIRS = "returns a pair of values and indices in PyTorch, and only the values here: write axis="
OTHERWISE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "max": (lambda x: x.max(dim=1)[0], rf"max\(\) with dim= {PAIRS}.* tg\.argmax for the positions$"),
    "max with keepdim": (lambda x: x.max(1, keepdim=True), rf"max\(\) with keepdim= {PAIRS}"),
    "min": (lambda x: untyped.min(x, dim=0), rf"min\(\) with dim= {PAIRS}.* tg\.argmin for the positions$"),
    "median": (lambda x: x.median(dim=1), rf"median\(\) with dim= {PAIRS}.* mean of two"),
    "sort": (lambda x: untyped.sort(x, dim=1), rf"sort\(\) with dim= {PAIRS}.* tg\.argsort for the positions$"),
    "split": (lambda x: x.split(1, dim=1), r"split\(\) with dim= takes the size of the parts, .* the number of parts"),
    "std": (
        lambda x: x.std(dim=1),
        r"std\(\) with dim= divides by n - 1 in PyTorch, and by n here: write correction=1",
    ),
    "var": (lambda x: untyped.var(x, 0, keepdim=True), r"var\(\) with keepdim= divides by n - 1 in PyTorch"),
}


@pytest.mark.parametrize("kind", [tg.array, lambda x: tg.tensor(x, device="numpy")])
@pytest.mark.parametrize("name", OTHERWISE)
def test_arguments_that_would_mean_something_else_are_refused(name: str, kind: Callable[[Any], Any]) -> None:
    call, message = OTHERWISE[name]
    with pytest.raises(ArgumentError, match=message):
        call(kind(np.ones((2, 3), np.float32)))
    with pytest.raises(ArgumentError, match=message):
        tg.jit(call, device="numpy")(X)


def test_a_correction_says_which_variance_is_meant() -> None:
    assert np.array_equal(X.var(dim=1, correction=1), X.var(axis=1, correction=1))
    assert X.std(axis=0, keepdim=True).shape == (1, 3)


def test_arguments_are_renamed_in_traces_too() -> None:
    assert np.array_equal(tg.jit(lambda x: x.sum(dim=0), device="numpy")(X), [3, 5, 7])
    assert np.array_equal(tg.grad(lambda x: untyped.sum(untyped.softmax(x, dim=1)[:, 0]))(X).shape, (2, 3))


def test_errors_of_what_is_called_stay() -> None:
    """A `TypeError` from inside a function is not an invalid call."""

    def wrong(x: Any) -> Any:
        raise TypeError("the user's own")

    with pytest.raises(TypeError, match="the user's own") as caught:
        tg.grad(wrong)(X)
    assert not isinstance(caught.value, ArgumentError)


def public_functions() -> dict[str, Any]:
    namespaces = [
        tg,
        tg.nn,
        tg.optim,
        tg.optim.schedules,
        tg.random,
        tg.initializers,
        tg.data,
        tg.linalg,
        tg.callbacks,
        tg.onnx,
    ]
    return {
        f"{space.__name__}.{name}": getattr(space, name)
        for space in namespaces
        for name in vars(space).get("__all__", vars(space))
        if not name.startswith("_") and (space is tg or getattr(vars(space)[name], "__module__", "") == space.__name__)
    }


def test_every_public_function_and_class_checks_its_calls() -> None:
    public = public_functions()
    functions = [name for name, value in public.items() if isinstance(value, FunctionType)]
    assert len(functions) > 200
    assert [name for name in functions if not hasattr(public[name], "__public__")] == []
    for name, value in public.items():
        if isinstance(value, type) and not issubclass(value, BaseException):
            own = [
                method
                for key, method in vars(value).items()
                if isinstance(method, FunctionType) and not key.startswith("_")
            ]
            assert all(hasattr(method, "__public__") for method in own), name


def test_signatures_and_documentation_stay() -> None:
    for name, value in public_functions().items():
        if isinstance(value, FunctionType):
            plain = inspect.unwrap(value)
            assert inspect.signature(value) == inspect.signature(plain) and value.__doc__ == plain.__doc__, name


def test_a_call_that_fits_looks_at_no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise AssertionError("a signature is looked at for misfits alone")

    monkeypatch.setattr(calls.inspect, "signature", refused)
    assert float(tg.sum(X)) == 15
    with pytest.raises(ShapeError):
        tg.sum(X, 5)


def test_habits() -> None:
    numbers = np.asarray(X)
    assert untyped.zeros(2, 3).shape == untyped.zeros((2, 3)).shape == untyped.ones([2, 3]).shape == (2, 3)
    assert untyped.zeros(2, "i32").dtype == untyped.zeros((2,), dtype="i32").dtype == np.int32
    assert untyped.ones(2, np.uint32).dtype == np.uint32 and untyped.zeros(4).shape == (4,)
    assert np.array_equal(tg.ones(2, 2), np.ones((2, 2))) and tg.zeros(()).shape == ()
    assert np.array_equal(tg.empty(2, 3), np.zeros((2, 3))) and tg.full((2,), 3.0).shape == (2,)
    tensor = tg.tensor([[1, 2], [3, 4]])
    assert isinstance(tensor, tg.Array) and tensor.dtype == np.int32 and tg.tensor(0.5).dtype == np.float32
    assert X.unsqueeze(0).shape == (1, 2, 3) and X.numel() == tg.numel(X) == tg.numel([1, 2]) + 4
    assert np.array_equal(X.clamp(1, 3), numbers.clip(1, 3)) and np.array_equal(X.clamp(max=2), numbers.clip(None, 2))
    filled = X.masked_fill(X > 2, -1)
    assert np.array_equal(filled, np.where(numbers > 2, -1, numbers)) and filled.dtype == np.float32
    assert np.array_equal(X.masked_fill(tg.array([True, False, False]), 9.0)[:, 0], [9, 9])
    with pytest.raises(tg.errors.DTypeError, match="the mask must be bool"):
        X.masked_fill(X, 0.0)
    with pytest.raises(ShapeError, match="does not broadcast"):
        X.masked_fill(np.ones((4, 2, 3), bool), 0.0)


@pytest.mark.parametrize(("extent", "chunks"), [(6, 3), (7, 3), (5, 4), (3, 7), (0, 2), (1, 1), (11, 6)])
def test_chunks_are_pytorch_s(extent: int, chunks: int) -> None:
    import torch

    values = np.arange(2 * extent, dtype=np.float32).reshape(2, extent)
    expected = torch.chunk(torch.from_numpy(values), chunks, dim=1)
    pieces = untyped.array(values).chunk(chunks, dim=1)
    assert [tuple(part.shape) for part in pieces] == [tuple(part.shape) for part in expected]
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(pieces, expected, strict=True))
    with pytest.raises(ShapeError, match="positive"):
        tg.chunk(values, 0)


def test_new_functions_have_derivatives() -> None:
    gradient = tg.grad(lambda x: tg.sum(x.masked_fill(x > 2, 0.0) * 2 + x.clamp(1, 10).chunk(2, axis=1)[0].sum()))(X)
    assert np.asarray(gradient).shape == (2, 3)


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cpu:0", "mps", "gpu"])
def test_other_libraries_devices(name: str) -> None:
    nearest = "cpu" if name == "cpu:0" else "wgpu"
    for call in (lambda: training(device=name), lambda: untyped.jit(lambda x: x, device=name)):
        with pytest.raises(OptionError, match=f"not '{name}'; the nearest is '{nearest}'"):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: untyped.nn.ModuleList, "a list of modules"),
        (lambda: untyped.nn.Linaer, "did you mean Linear"),
        (lambda: untyped.optim.ASGD, r"tg\.optim\.sgd"),
        (lambda: untyped.optim.lr_scheduler, r"tg\.optim\.schedules"),
        (lambda: untyped.data.DataLoader, r"tg\.data\.batches"),
        (lambda: untyped.random.randn, r"tg\.random\.normal"),
        (lambda: untyped.inference_mode, r"tg\.no_grad"),
        (lambda: X.index_select, r"x\.take"),
        (lambda: X.cuda(), r"x\.to\(\"wgpu\"\) .* device= of"),
        (lambda: tg.nn.Linear(1, 1).train(), r"tg\.nn\.inference"),  # pyright: ignore[reportAttributeAccessIssue]
        (lambda: OnlyForward().eval(), r"tg\.nn\.inference"),  # pyright: ignore[reportAttributeAccessIssue]
        (lambda: training().backward(), r"training\.step"),
    ],
)
def test_other_libraries_names(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        call()


def test_a_missing_attribute_is_cheap_to_ask_for() -> None:
    """Pytree code checks attributes of every leaf; the suggestion is only computed with the message."""
    error = None
    try:
        _ = X.nothing_like_it
    except AttributeError as caught:
        error = caught
    assert error is not None and error.args == () and "no attribute 'nothing_like_it'" in str(error)
    assert not hasattr(X, "tree_children")


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda x: f"{x:.3f}", "formatting"),
        (lambda x: print(float(x)), r"float\(\)"),
        (lambda x: x.item(), r"item\(\)"),
        (lambda x: x.tolist(), r"numpy\(\)"),
        (lambda x: np.from_dlpack(x), "another library"),
    ],
)
def test_numbers_of_traced_tensors(use: Callable[[Any], Any], what: str) -> None:
    with pytest.raises(TraceError, match=f"{what}.* needs the numbers of a traced tensor") as caught:
        tg.jit(lambda x: use(x), device="numpy")(X)
    assert caught.value.location.startswith(f"{__file__}:")


def test_concrete_numbers() -> None:
    single = tg.array([[2.5]])
    assert f"{single:.3f}" == f"{float(single):.3f}" == "2.500" and f"{single}" == repr(single) and single.item() == 2.5
    assert [float(x) for x in X[0]] == [0, 1, 2] and len(X) == 2 and X.tolist() == [[0, 1, 2], [3, 4, 5]]
    for call in (float, int, bool, lambda x: f"{x:.2f}", lambda x: x.item(), lambda x: [0, 1][x]):
        with pytest.raises(ShapeError, match=r"takes a tensor of one element, this one has the shape \(2, 3\)"):
            call(X)


def test_other_libraries_take_our_arrays() -> None:
    import torch

    for values in (X, tg.array([True, False]), tg.array(3), tg.zeros(0, 2), training().step(x=np.ones((4, 3)))):
        for take in (torch.as_tensor, torch.tensor, torch.from_dlpack, np.from_dlpack):
            theirs = take(values)
            assert np.array_equal(np.asarray(theirs), np.asarray(values)) and tuple(theirs.shape) == values.shape
    copy = torch.as_tensor(X)
    copy[0, 0] = 7
    assert float(X[0, 0]) == 0, "arrays never change"


def test_we_take_other_libraries_arrays() -> None:
    import torch

    source = torch.arange(6.0).reshape(2, 3)
    ours = tg.from_dlpack(source)
    source[0] = 9
    assert isinstance(ours, tg.Array) and np.array_equal(ours, X)
    assert tg.from_dlpack(torch.arange(3)).dtype == np.int32 and np.array_equal(tg.from_dlpack(X), X)
    for value, message in (
        (torch.ones(2, requires_grad=True), "requires a gradient"),
        ([1.0], "takes an array with __dlpack__, not list"),
    ):
        with pytest.raises(tg.errors.DTypeError, match=message):
            tg.from_dlpack(value)


def test_lists_and_integers_where_floats_are_wanted() -> None:
    rows = [[1, 2, 3]] * 4
    of_lists, of_integers, of_floats = training(), training(), training()
    losses = [
        of_lists.step(x=rows),
        of_integers.step(x=np.array(rows)),
        of_floats.step(x=np.array(rows, np.float32)),
    ]
    assert float(losses[0]) == float(losses[1]) == float(losses[2])
    forward = of_lists.attach(lambda model, x: model(x))
    assert np.array_equal(forward(x=rows[:1]), forward(x=np.array(rows[:1], np.float32)))
    assert np.array_equal(tg.exp([0, 0]), [1, 1]) and float(tg.grad(lambda x: x * x)(3)) == 6
