import marimo

app = marimo.App(width="medium", app_title="1. One model at every level")

with app.setup:
    from typing import Any

    import marimo as mo
    import numpy as np

    import tensorgrad as tg
    from tensorgrad import lab


@app.cell
def introduction():
    mo.md("""
    # 1. One model at every level

    A model, a loss and an optimizer become tensor operations, then kernels over buffers, then code. Change the Python, and
    look at what it becomes. Every level is text that `tg-opt` reads, edits and runs.
    """)


@app.cell
def _():
    source = mo.ui.code_editor(
        """
model = tg.nn.Sequential(tg.nn.Linear(3, 8), tg.tanh, tg.nn.Linear(8, 2))


def loss(model, x, y):
    return tg.mean((model(x) - y) ** 2)
""".strip(),
        language="python",
        label="A model that takes 3 numbers and returns 2, and its loss",
    )
    source
    return (source,)


@app.cell
def _():
    optimizer = mo.ui.dropdown(["sgd", "adam", "adamw", "rmsprop"], value="sgd", label="Optimizer")
    optimizer
    return (optimizer,)


@app.cell
def _(optimizer, source):
    names: dict[str, Any] = {"tg": tg}
    exec(source.value, names)
    training = tg.compile(
        names["model"],
        loss=names["loss"],
        optimizer=getattr(tg.optim, optimizer.value)(0.1),
        inputs={"x": (16, 3), "y": (16, 2)},
        device="cpu",
    )
    return (training,)


@app.cell
def _():
    level = mo.ui.radio(
        {
            "Python, traced": "traced",
            "tg: with derivatives and the update": "tg",
            "buf: fused kernels and their memory": "buf",
            "wgsl: what a GPU runs": "wgsl",
            "cpu: native loops": "cpu",
            "llvm: what the CPU runs": "llvm",
        },
        value="tg: with derivatives and the update",
        label="Level",
    )
    level
    return (level,)


@app.cell
def _(level, training):
    text = training.module(level.value)
    lab.code(text)
    return (text,)


@app.cell
def _(training):
    sizes = {name: len(training.module(name).splitlines()) for name in ("traced", "tg", "buf", "wgsl", "llvm")}
    stats = training.stats()
    mo.vstack(
        [
            mo.md(f"A step is **{stats['dispatches']} dispatches**, which move **{stats['bytes_moved']:,} bytes**."),
            lab.table(("level", "lines"), sizes.items()),
        ]
    )
    return (sizes,)


@app.cell
def _(training):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(16, 3)).astype(np.float32)
    y = np.stack([x.sum(1), x.max(1)], 1)
    losses = [float(training.step(x=x, y=y)) for _ in range(50)]
    mo.md(f"In fifty steps the loss falls from {losses[0]:.3f} to {losses[-1]:.3f}.")
    return (losses,)


@app.cell
def _(sizes, training):
    mo.md(f"""
    **Exercises.** Which optimizer adds the most lines to `tg`, and does it add dispatches, too? Put `tg.checkpoint` around a
    layer: what becomes of `tg`? Now: {sizes["traced"]} lines traced, {sizes["tg"]} with derivatives and update,
    {training.stats()["dispatches"]} dispatches.
    """)


if __name__ == "__main__":
    app.run()
