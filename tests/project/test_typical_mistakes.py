"""Sixty mistakes that users make: what each one sees, that it names their line, and that nothing has changed.

Each is a function of a user's `Workplace`, whose line that ends in `# here` is the one that the message names.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from models import MLP, batch, compiled, squared_error

import tensorgrad as tg
from tensorgrad.errors import (
    ArgumentError,
    AxisError,
    BroadcastWarning,
    DivergenceError,
    DTypeError,
    GradientError,
    IndexingError,
    InputError,
    OptionError,
    PaddingWarning,
    ParameterError,
    ProgramError,
    ShapeError,
    TensorgradError,
    TraceError,
    UnknownNameError,
    UnusedParameterWarning,
    UserError,
)

untyped: Any = tg
"""The package as code without types calls it."""


class Workplace:
    """What a user has: a model, its training after a step, arrays, and a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.x, self.y = batch().values()
        self.model = MLP(3, 5, 2)
        self.training: Any = compiled(model=self.model)
        self.training.step(x=self.x, y=self.y)

    def contents(self) -> dict[str, np.ndarray]:
        """Returns copies of all values that a mistake might change."""
        arrays = {"x": self.x, "y": self.y, "step": np.asarray(self.training.step_count)}
        return {name: np.array(value) for name, value in {**arrays, **self.training.state_dict()}.items()}


class Mistake(NamedTuple):
    """A mistake and what its user sees."""

    act: Callable[[Workplace], object]
    error: type[Exception]
    message: str


MISTAKES: dict[str, Mistake] = {}


def mistake(error: type[Exception], message: str) -> Callable[[Callable[[Workplace], object]], None]:
    """Adds a mistake to the table, with the error and the sentence that its message contains."""

    def add(act: Callable[[Workplace], object]) -> None:
        MISTAKES[act.__name__] = Mistake(act, error, message)

    return add


# Shapes


@mistake(ShapeError, "matmul: inner extents differ: (4, 3) @ (4, 3) (3 and 4)")
def a_product_without_a_transpose(at: Workplace) -> object:
    return tg.array(at.x) @ tg.array(at.x)  # here


@mistake(ShapeError, "add: shapes (4, 3) and (4, 2) do not broadcast")
def a_sum_of_other_extents(at: Workplace) -> object:
    return tg.array(at.x) + at.y  # here


@mistake(AxisError, "sum: axis 2 is out of range for a tensor of 2 axes")
def an_axis_too_many(at: Workplace) -> object:
    return tg.sum(at.x, axis=2)  # here


@mistake(AxisError, "softmax: axis 3 is out of range for a tensor of 2 axes")
def an_axis_of_a_composed_function(at: Workplace) -> object:
    return untyped.softmax(at.x, dim=3)  # here


@mistake(ShapeError, "reshape: cannot reshape [4, 3] (12 elements) to [5, 2]")
def a_reshape_to_another_count(at: Workplace) -> object:
    return tg.reshape(at.x, (5, 2))  # here


@mistake(ShapeError, "concat: (4, 3) and (4, 2) differ on another axis than 0")
def a_concatenation_along_the_wrong_axis(at: Workplace) -> object:
    return tg.concat([at.x, at.y])  # here


@mistake(ShapeError, "split: axis 0 of (4, 3) does not divide into 3 parts")
def a_split_into_unequal_parts(at: Workplace) -> object:
    return tg.split(at.x, 3)  # here


@mistake(ShapeError, "swapaxes swaps two axes, as PyTorch's transpose does")
def a_transpose_as_in_pytorch(at: Workplace) -> object:
    return tg.array(at.x).transpose(0, 1)  # here


@mistake(IndexingError, "index 4 is out of range for axis 0 of (4, 3)")
def an_index_after_the_end(at: Workplace) -> object:
    return tg.array(at.x)[4]  # here


@mistake(IndexingError, "3 indices for a tensor of 2 axes")
def an_index_too_many(at: Workplace) -> object:
    return tg.array(at.x)[0, 0, 0]  # here


@mistake(ShapeError, "conv2d: 3 channels are not the 2 that the weights take")
def images_of_other_channels(at: Workplace) -> object:
    return tg.conv2d(tg.ones((1, 3, 8, 8)), tg.ones((4, 2, 3, 3)))  # here


@mistake(ShapeError, "Conv2d: expected a shape [batch, 3, 2 spatial axes], got (3, 8, 8)")
def an_image_without_a_batch(at: Workplace) -> object:
    return tg.nn.Conv2d(3, 8, 3).initialized(0)(tg.ones((3, 8, 8)))  # here


@mistake(ShapeError, "`0` (Linear 3 -> 5) got (4, 2): matmul: inner extents differ")
def a_layer_with_other_features(at: Workplace) -> object:
    model = tg.nn.Sequential(tg.nn.Linear(3, 5), tg.nn.ReLU()).initialized(0)
    return model(at.y)  # here


@mistake(ShapeError, "einsum: 'ij,jk->ik': label 'j' has extents 3 and 4")
def a_label_with_two_extents(at: Workplace) -> object:
    return tg.einsum("ij,jk->ik", at.x, at.x)  # here


@mistake(ShapeError, "MultiHeadAttention: num_heads 3 does not divide embed_dim 10")
def heads_that_do_not_divide(at: Workplace) -> object:
    return tg.nn.MultiHeadAttention(10, 3)  # here


# Values and dtypes


@mistake(DTypeError, "cannot use list as a tensor; its element 0 is of length 1, and 1 is of length 2: pad them")
def a_ragged_list(at: Workplace) -> object:
    return tg.array([[1.0], [1.0, 2.0]])  # here


@mistake(DTypeError, "cannot use list of dtype object as a tensor; its element 1 is None")
def a_list_with_none(at: Workplace) -> object:
    return untyped.array([1.0, None])  # here


@mistake(DTypeError, "cannot use dict of dtype object as a tensor; tg.tree_map maps a function over the tensors")
def a_dict_as_a_tensor(at: Workplace) -> object:
    return untyped.exp({"x": at.x})  # here


@mistake(DTypeError, "where: the condition must be bool, not f32")
def a_condition_of_floats(at: Workplace) -> object:
    return tg.where(at.x, at.x, 0.0)  # here


@mistake(DTypeError, "take: indices must be integers, got f32")
def indices_of_floats(at: Workplace) -> object:
    return tg.take(at.x, [0.5])  # here


@mistake(DTypeError, "embedding: indices must be integers, got f32")
def tokens_of_floats(at: Workplace) -> object:
    return tg.nn.Embedding(5, 2).initialized(0)(at.x)  # here


@mistake(InputError, "input 'x' must be a shape or a tg.spec(shape, dtype)")
def a_shape_with_its_dtype(at: Workplace) -> object:
    inputs: Any = {"x": ((4, 3), "f32"), "y": (4, 2)}
    return tg.compile(at.model, loss=squared_error, optimizer=None, inputs=inputs)  # here


@mistake(ShapeError, "cross_entropy: labels: index 3 is out of range, it must be in 0 to 2")
def labels_counted_from_one(at: Workplace) -> object:
    return tg.cross_entropy(at.x, [0, 1, 2, 3])  # here


@mistake(DTypeError, 'labels, not f32 and f32; inputs={..., "y": tg.spec(8, "i32")} declares labels, labels.astype')
def labels_of_floats(at: Workplace) -> object:
    return tg.cross_entropy(at.x, at.y[:, 0])  # here


@mistake(TraceError, "a tensor can't be changed; x = x.at[key].set(value) makes a changed copy")
def an_assignment_to_an_element(at: Workplace) -> None:
    x = tg.array(at.x)
    x[0] = 1.0  # here


@mistake(ShapeError, "a condition (any() and all() make one of several elements) takes a tensor of one element")
def a_condition_of_many_elements(at: Workplace) -> object:
    return bool(tg.array(at.x) > 0)  # here


@mistake(OptionError, "a key is two u32, such as tg.random.key(0) gives; got (2, 3)")
def a_random_number_without_a_key(at: Workplace) -> object:
    return untyped.random.normal((2, 3))  # here


# Traces


@mistake(TraceError, "Python control flow (if, while, and, or, not) needs the numbers of a traced tensor of shape ()")
def an_if_on_a_traced_value(at: Workplace) -> object:
    def absolute(x: Any) -> Any:
        return x if tg.sum(x) > 0 else -x  # here

    return tg.jit(absolute, device="numpy")(at.x)


@mistake(TraceError, "choose what runs; static= of tg.jit names arguments that stay Python's, such as flags")
def a_flag_that_is_not_static(at: Workplace) -> object:
    def scaled(x: Any, doubled: Any) -> Any:
        return 2 * x if doubled else x  # here

    return tg.jit(scaled, device="numpy")(at.x, True)


@mistake(TraceError, "weight would be drawn inside a trace, where it has no numbers: initialize models outside")
def a_model_initialized_in_a_trace(at: Workplace) -> object:
    return tg.jit(lambda x: tg.nn.Linear(3, 2).initialized(0)(x), device="numpy")(at.x)  # here


@mistake(TraceError, "tg.cond or tg.while_loop to choose what runs")
def a_while_on_a_traced_value(at: Workplace) -> object:
    def doubled(x: Any) -> Any:
        while tg.sum(x) < 100:  # here
            x = 2 * x
        return x

    return tg.jit(doubled, device="numpy")(at.x)


@mistake(TraceError, "item() needs the numbers of a traced tensor of shape (), which exist only when the program runs")
def an_item_in_a_trace(at: Workplace) -> object:
    return tg.jit(lambda x: x / tg.max(x).item(), device="numpy")(at.x)  # here


@mistake(TraceError, "np.unique needs the numbers of its arguments")
def a_numpy_function_in_a_trace(at: Workplace) -> object:
    return tg.jit(lambda x: np.unique(x), device="numpy")(at.x)  # here


@mistake(TraceError, "tg.fori_loop as range, or static= of tg.jit for a Python number")
def a_range_of_a_traced_number(at: Workplace) -> object:
    return tg.jit(lambda n: sum(range(n)), device="numpy")(3)  # here


@mistake(ShapeError, "shapes are fixed when a function is traced: static= of tg.jit")
def a_shape_of_a_traced_number(at: Workplace) -> object:
    return untyped.jit(lambda n: tg.zeros(n), device="numpy")(3)  # here


@mistake(DTypeError, "how many elements a mask selects is known only when the program runs; choose values by tg.where")
def a_selection_by_a_traced_mask(at: Workplace) -> object:
    return tg.jit(lambda x: x[x > 0], device="numpy")(at.x)  # here


@mistake(TraceError, "is used after that trace ended; return it from the traced function instead of storing it")
def a_stored_traced_value(at: Workplace) -> object:
    kept: list[Any] = []
    tg.jit(lambda x: kept.append(x) or x, device="numpy")(at.x)
    return kept[0] + 1  # here


@mistake(InputError, "this array was donated to advance(), which has replaced it by its result")
def a_donated_buffer_read(at: Workplace) -> object:
    def advance(state: Any) -> Any:
        return state + 1

    step = tg.jit(advance, donate=["state"], device="cpu")
    state = step(at.x)
    step(state)
    return state.tolist()  # here


@mistake(InputError, "static argument 'sizes': unhashable type: 'list'")
def a_static_list(at: Workplace) -> object:
    def stretched(x: Any, sizes: Any) -> Any:
        return x * sizes[0]

    return tg.jit(stretched, static=["sizes"], device="numpy")(at.x, [2])  # here


@mistake(ShapeError, "scan: the carry that the body gives has shape (4,), expected (2,)")
def a_carry_that_grows(at: Workplace) -> object:
    return tg.scan(lambda carry, x: (tg.concat([carry, carry]), x), tg.ones(2), tg.ones(3))  # here


# Derivatives


@mistake(ShapeError, "grad: squares must return a float scalar, got shape (4, 3) of f32; take tg.mean or tg.sum")
def a_gradient_of_a_vector(at: Workplace) -> object:
    def squares(x: Any) -> Any:
        return x * x

    return tg.grad(squares)(at.x)  # here


@mistake(DTypeError, "grad: an argument to differentiate by is i32; only floats have derivatives")
def a_gradient_by_integers(at: Workplace) -> object:
    return tg.grad(lambda n: tg.sum(n * n))(tg.array([1, 2]))  # here


@mistake(GradientError, "which the derivative of the line")
def a_value_changed_before_backward(at: Workplace) -> None:
    x = tg.tensor(at.x, device="numpy", requires_grad=True)
    y = tg.exp(x)
    total = y.sum()
    y += 1
    total.backward()  # here


@mistake(GradientError, "backward(retain_graph=True) keeps it for another one")
def a_second_backward(at: Workplace) -> None:
    x = tg.tensor(at.x, device="numpy", requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    loss.backward()  # here


@mistake(GradientError, "backward: a tensor of shape (4, 3) needs a gradient of that shape")
def a_backward_without_a_sum(at: Workplace) -> None:
    x = tg.tensor(at.x, device="numpy", requires_grad=True)
    (x * x).backward()  # here


@mistake(GradientError, "step: no parameter has a gradient; call loss.backward() first")
def a_step_without_backward(at: Workplace) -> None:
    x = tg.tensor(at.x, device="numpy", requires_grad=True)
    tg.optim.SGD([x], lr=0.1).step()  # here


# Losses, models, optimizers


@mistake(ShapeError, "unreduced() must return a float scalar, got shape (4, 2); take tg.mean or tg.sum")
def a_loss_without_a_mean(at: Workplace) -> object:
    def unreduced(model: Any, x: Any, y: Any) -> Any:
        return (model(x) - y) ** 2  # here

    return compiled(loss=unreduced)


@mistake(TraceError, "silent() must return one float scalar, got NoneType; is a return missing?")
def a_loss_without_a_return(at: Workplace) -> object:
    def silent(model: Any, x: Any, y: Any) -> None:
        tg.mse(model(x), y)

    inputs = {"x": (4, 3), "y": (4, 2)}
    return untyped.compile(at.model, loss=silent, optimizer=tg.optim.sgd(0.1), inputs=inputs, device="numpy")  # here


@mistake(BroadcastWarning, "broadcasts the shapes (4, 1) and (4,) to (4, 4), all pairs of their elements")
def targets_without_an_axis(at: Workplace) -> object:
    def error(model: Any, x: Any, y: Any) -> Any:
        return tg.mean((model(x) - y) ** 2)  # here

    return compiled(model=tg.nn.Linear(3, 1), loss=error, inputs={"x": (4, 3), "y": (4,)})


@mistake(PaddingWarning, "padded positions reach the loss of error() through tg.sum: ")
def a_mean_that_counts_what_is_padded(at: Workplace) -> object:
    def error(model: Any, x: Any, y: Any) -> Any:
        return tg.mean((model(x) - y) ** 2)  # here

    rows = tg.dim("rows", at_most=8, buckets=(4, 8), padding=0)
    return compiled(model=tg.nn.Linear(3, 1), loss=error, inputs={"x": (rows, 3), "y": (rows, 1)})


@mistake(UnusedParameterWarning, "does not depend on the parameter 'layers.0.weight', which is to be trained")
def a_loss_without_the_model(at: Workplace) -> object:
    def loss(model: object, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
        return tg.mse(x[:, :2], y)

    inputs = {"x": (4, 3), "y": (4, 2)}
    return tg.compile(at.model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs=inputs, device="numpy")  # here


@mistake(OptionError, "or None, got the function adam, which has to be called")
def an_optimizer_that_is_not_called(at: Workplace) -> object:
    inputs = {"x": (4, 3), "y": (4, 2)}
    return untyped.compile(at.model, loss=squared_error, optimizer=tg.optim.adam, inputs=inputs, device="numpy")  # here


@mistake(ArgumentError, "adam() has no argument 'lr'; it is learning_rate here")
def a_learning_rate_by_another_name(at: Workplace) -> object:
    return untyped.optim.adam(lr=1e-3)  # here


@mistake(OptionError, "adam: betas must be two numbers, got 0.1; tg.compile gives it the parameters")
def an_optimizer_of_parameters(at: Workplace) -> object:
    return untyped.optim.adam(at.model.named_parameters(), 0.1)  # here


@mistake(ParameterError, "parameter f32[3, 2] has no values: parameters are declared at construction")
def a_model_without_values(at: Workplace) -> object:
    return tg.nn.Linear(3, 2)(at.x)  # here


@mistake(ArgumentError, "Net is called, but defines no __call__; name its forward __call__")
def a_model_with_forward(at: Workplace) -> object:
    class Net(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = tg.nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    net: Any = Net().initialized(0)
    return net(at.x)  # here


@mistake(OptionError, "Dropout drops with probability 0.5, and has no key: pass one on, as in model(x, key=key)")
def a_dropout_without_a_key(at: Workplace) -> object:
    return tg.nn.Dropout(0.5)(tg.array(at.x))  # here


@mistake(UnknownNameError, "a list of modules, assigned to an attribute, is found as it is")
def a_name_of_pytorch(at: Workplace) -> object:
    return untyped.nn.ModuleList([])


# Training


@mistake(InputError, "missing input 'y' (expected: x, y)")
def a_step_without_an_input(at: Workplace) -> object:
    return at.training.step(x=at.x)  # here


@mistake(InputError, "input 'y' has shape (4, 1), expected (4, 2)")
def a_step_with_another_shape(at: Workplace) -> object:
    return at.training.step(x=at.x, y=at.y[:, :1])  # here


@mistake(ArgumentError, "step() takes no argument by position, got 2: give them by name, such as x=, y=")
def a_step_by_position(at: Workplace) -> object:
    return at.training.step(at.x, at.y)  # here


@mistake(DivergenceError, "fit: the loss was nan at step 2; there is no checkpoint")
def a_loss_that_is_nan(at: Workplace) -> object:
    training = compiled()
    training.step(x=at.x, y=at.y)
    nans = [{"x": at.x * np.float32(np.nan), "y": at.y}]
    return tg.fit(training, nans, steps=1, on_nan="raise", progress=False)  # here


@mistake(InputError, "fit: there are no batches in the data")
def a_fit_on_no_data(at: Workplace) -> object:
    return tg.fit(at.training, [], steps=3, progress=False)  # here


@mistake(InputError, "the state is not this training's, nothing is loaded. missing: layers.0.weight")
def a_state_without_a_parameter(at: Workplace) -> None:
    state = at.training.state_dict()
    del state["layers.0.weight"]
    at.training.load_state_dict(state)  # here


@mistake(InputError, "of another shape: weight is [3, 5], expected [5, 3]")
def a_pytorch_state_transposed(at: Workplace) -> object:
    state = {"weight": np.ones((3, 5), np.float32), "bias": np.zeros(5, np.float32)}
    return tg.nn.from_torch(tg.nn.Linear(3, 5), state)  # here


@mistake(InputError, "is not a safetensors file of arrays")
def a_checkpoint_that_is_none(at: Workplace) -> None:
    path = at.folder / "checkpoint.safetensors"
    path.write_text("no checkpoint", encoding="utf-8")
    at.training.load_checkpoint(path)  # here


@mistake(ParameterError, "the model's parameters changed since tg.compile")
def a_model_changed_after_compile(at: Workplace) -> object:
    at.model.layers.append(tg.nn.Linear(2, 2))
    return at.training.step(x=at.x, y=at.y)  # here


@mistake(ProgramError, "a Training holds compiled programs and can't be copied or pickled")
def a_training_copied(at: Workplace) -> object:
    return copy.deepcopy(at.training)


# Devices


@mistake(OptionError, "device must be one of auto, wgpu, cpu, numpy, not 'cuda'; the nearest is 'wgpu'")
def a_device_of_pytorch(at: Workplace) -> object:
    return untyped.tensor(at.x, device="cuda")  # here


@mistake(ArgumentError, "a tensor on cpu is used together with one on numpy; x.to('numpy') makes one there")
def tensors_on_two_devices(at: Workplace) -> object:
    return tg.tensor(at.x, device="numpy") + tg.tensor(at.x, device="cpu")  # here


@mistake(OptionError, "memory_limit, a number of bytes, must be a positive integer, got '1GB'")
def a_memory_limit_as_text(at: Workplace) -> object:
    inputs, optimizer = {"x": (4, 3), "y": (4, 2)}, tg.optim.sgd(0.1)
    return untyped.compile(at.model, loss=squared_error, optimizer=optimizer, inputs=inputs, memory_limit="1GB")  # here


def line_named(act: Callable[..., object]) -> str:
    """Returns the place of the line of a mistake that ends in `# here`, as messages name it."""
    lines, start = inspect.getsourcelines(act)
    return next(f"{__file__}:{start + offset}" for offset, line in enumerate(lines) if line.rstrip().endswith("# here"))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_error_and_changes_nothing(name: str, tmp_path: Path) -> None:
    act, error, message = MISTAKES[name]
    at = Workplace(tmp_path)
    before = at.contents()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error) as caught:
            act(at)
    assert type(caught.value) is error and message in str(caught.value)
    if isinstance(caught.value, UserError) or issubclass(error, Warning):
        assert str(caught.value).startswith(f"{line_named(act)}: "), str(caught.value)
    assert not isinstance(caught.value.__cause__, TensorgradError)
    after = at.contents()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[path], after[path]) for path in before)


def test_there_are_sixty() -> None:
    assert len(MISTAKES) >= 60
