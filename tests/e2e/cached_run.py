"""Compiles programs of every kind in a process that test_program_cache starts; prints how many passes ran."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.driver.compiling import lowering

X = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)

RAN: list[str] = []
run_passes = lowering.run_passes


def counted(module: Any, passes: Any, *rest: Any, **options: Any) -> None:
    """Runs passes and records their names."""
    RAN.extend(pass_.name for pass_ in passes)
    run_passes(module, passes, *rest, **options)


def loss(model: Any, x: Any, key: Any) -> Any:
    hidden = tg.random.dropout(key, tg.tanh(model["first"](x)), 0.1)
    return {"first": tg.mean(hidden**2), "second": tg.mean(model["second"](tg.stop_gradient(hidden)) ** 2)}


@tg.jit(device="wgpu")
def total(values: Any) -> Any:
    return {name: tg.sum(value * np.array([0.0, -0.0, 1.5], np.float32)) for name, value in values.items()}


def main() -> None:
    lowering.run_passes = counted
    training = tg.compile(
        {"first": tg.nn.Linear(6, 5), "second": tg.nn.Linear(5, 4)},
        loss=loss,
        optimizer={"first": tg.optim.adam(tg.optim.schedules.cosine(1e-2, 50)), "second": tg.optim.sgd(0.1)},
        inputs={"x": (4, 6)},
        device="wgpu",
        accumulate=2,
        memory_limit=1 << 20,
    )
    predict = training.attach(lambda model, x: tg.softmax(model["first"](x)), inputs={"x": (4, 6)})
    losses = [training.step(x=X[i % 5 : i % 5 + 4]) for i in range(6)]
    slopes = training.gradients(x=X[:4])
    record = {
        "losses": [float(step[name]).hex() for step in losses for name in sorted(step)],
        "outputs": np.asarray(predict(x=X[:4])).tobytes().hex(),
        "gradients": {name: np.asarray(value).tobytes().hex() for name, value in sorted(slopes.items())},
        "sums": [float(value).hex() for value in total({"a": X[:, :3], "b": X[:, 3:]}).values()],
        "memory": training.stats()["memory_limit"],
    }
    print(json.dumps({"passes": len(RAN), "found": record}))


if __name__ == "__main__":
    main()
