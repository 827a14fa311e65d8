"""Correct and incorrect uses for `tests/project/test_typed.py`; a marked line violates the rule that it names."""

from typing import assert_type

import numpy as np

import tensorgrad as tg

x = tg.ones((2, 3))
assert_type(x, tg.Tensor)
assert_type(x.softmax(axis=-1), tg.Tensor)
assert_type(tg.Tensor.sum(x, 0), tg.Tensor)
assert_type(x @ x.T + 1, tg.Tensor)
assert_type(1 - x[0], tg.Tensor)
assert_type(x.chunk(2), list[tg.Tensor])
assert_type(x.numel(), int)
assert_type(tg.cat([x, x]), tg.Tensor)
assert_type(x.view(-1).mul(2).expand(2, -1).float(), tg.Tensor)
assert_type(x.requires_grad, bool)
assert_type(x.topk(2), tuple[tg.Tensor, tg.Tensor])
assert_type(tg.zeros(2, 3, dtype="i32"), tg.Tensor)
assert_type(tg.zeros((2, 3), "i32"), tg.Tensor)
assert_type(tg.zeros((2, 3), dtype="i32"), tg.Tensor)
assert_type(tg.stop_gradient({"a": x}), dict[str, tg.Tensor])
assert_type(tg.tensor([1.0]), tg.Tensor)
assert_type(tg.__version__, str)
print(tg.load("file.tgp")(x=1.0), tg.load("file.tgp").step(x=1.0), tg.load("file.tgp").parameters())

print(tg.foo)  # error: reportAttributeAccessIssue
print(tg.import_module)  # error: reportAttributeAccessIssue
x.sofmax()  # error: reportAttributeAccessIssue
x.softmax(axes=1)  # error: reportCallIssue
tg.sum(x, axes=1)  # error: reportCallIssue
tg.nn.Linaer(2, 2)  # error: reportAttributeAccessIssue
tg.nn.Linear(2, 2, biass=False)  # error: reportCallIssue
tg.nn.Linear("2", 2)  # error: reportArgumentType
tg.optim.adam(lr=1e-3)  # error: reportCallIssue


class Model(tg.nn.Module):
    """A model as users write it."""

    def __init__(self) -> None:
        self.linear = tg.nn.Linear(3, 2)
        self.norm = tg.nn.LayerNorm(2)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        assert_type(self.linear(x), tg.Tensor)
        return self.norm(self.linear(x))


def loss(model: Model, x: tg.Tensor) -> tg.Tensor:
    """A loss without metrics."""
    return tg.mean(model(x) ** 2)


def with_metrics(model: Model, x: tg.Tensor) -> tuple[tg.Tensor, dict[str, tg.Tensor]]:
    """A loss with metrics."""
    return loss(model, x), {"norm": tg.norm(x)}


model = Model()
print(model.linaer)  # error: reportAttributeAccessIssue
assert_type(tg.nn.inference(model), Model)
training = tg.compile(model, loss=loss, optimizer=tg.optim.adam(1e-3), inputs={"x": (4, 3)}, device="numpy")
value = training.step(x=np.ones((4, 3)))
assert_type(value, tg.Tensor)
assert_type(float(value), float)
training.step(np.ones((4, 3)))  # error: reportCallIssue
training.stepp(x=np.ones((4, 3)))  # error: reportAttributeAccessIssue
tg.compile(model, loss=loss, optimizer=tg.optim.adam(1e-3), inputs={}, device="cuda")  # error: reportArgumentType
tg.compile(model, loss=loss, optimizer=tg.optim.adam(1e-3), inputs={}, precision="f8")  # error: reportArgumentType

measured = tg.compile(model, loss=with_metrics, optimizer=tg.optim.adam(1e-3), inputs={"x": (4, 3)})
assert_type(measured.step(x=np.ones((4, 3))), tuple[tg.Tensor, dict[str, tg.Tensor]])
predict = measured.attach(lambda model, x: model.linear(x), inputs={"x": (4, 3)})
assert_type(training.attach(loss)(x=np.ones((1, 3))), tg.Tensor)


@tg.jit(device="numpy")
def double(x: tg.Tensor, times: int = 2) -> tg.Tensor:
    """A function to compile."""
    return x * times


assert_type(double(x), tg.Tensor)
assert_type(tg.jit(loss)(model, x), tg.Tensor)
report = tg.fit(training, [{"x": np.ones((4, 3))}], epochs=1)
assert_type(report, tg.Report)
report.losses.mean()
print(report.loses)  # error: reportAttributeAccessIssue
device: tg.DeviceName = "wgpu"


def scored(weights: dict[str, tg.Tensor], x: tg.Tensor) -> tuple[tg.Tensor, int]:
    """A scalar and what else was computed."""
    return tg.sum(x @ weights["w"]), 3


assert_type(tg.grad(loss)(model, x), Model)
assert_type(tg.value_and_grad(loss)(model, x), tuple[tg.Tensor, Model])
assert_type(tg.grad(scored, has_aux=True)({"w": x}, x), tuple[dict[str, tg.Tensor], int])
assert_type(tg.vmap(tg.sum)(x), tg.Tensor)
assert_type(tg.checkpoint(loss)(model, x), tg.Tensor)
assert_type(tg.cond(True, lambda: x, lambda: -x), tg.Tensor)
tg.checkpoint(loss)(model)  # error: reportCallIssue
tg.sum({"a": x})  # error: reportArgumentType
tg.reshape(x, "6")  # error: reportArgumentType
