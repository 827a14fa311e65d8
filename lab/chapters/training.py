import marimo

app = marimo.App(width="medium", app_title="4. A loss that falls")

with app.setup:
    import marimo as mo
    import numpy as np

    import tensorgrad as tg
    from tensorgrad import lab


@app.cell
def introduction():
    mo.md("""
    # 4. A loss that falls

    A step is compiled once; the learning rate is a number that the host passes to it. Move the slider: the run starts again
    from the same parameters, and nothing is compiled. Another width or optimizer is another program.
    """)


@app.cell
def _():
    width = mo.ui.slider(2, 64, value=16, label="Width", show_value=True)
    return (width,)


@app.cell
def _():
    optimizer = mo.ui.dropdown(["sgd", "adam", "adamw"], value="adam", label="Optimizer")
    return (optimizer,)


@app.cell
def _():
    _rates = [float(f"{rate:.2g}") for rate in np.geomspace(1e-4, 10, 26)]
    rate = mo.ui.slider(steps=_rates, value=1e-2, label="Learning rate", show_value=True)
    return (rate,)


@app.cell
def _(optimizer, rate, width):
    mo.hstack([width, optimizer, rate])


@app.cell
def _(optimizer, width):
    training = tg.compile(
        tg.nn.Sequential(tg.nn.Linear(1, width.value), tg.tanh, tg.nn.Linear(width.value, 1)),
        loss=lambda model, x, y: tg.mean((model(x) - y) ** 2),
        optimizer=getattr(tg.optim, optimizer.value)(1e-2),
        inputs={"x": (64, 1), "y": (64, 1)},
        device="cpu",
    )
    predict = training.attach(lambda model, x: model(x), inputs={"x": (64, 1)})
    start = training.state_dict()
    return predict, start, training


@app.cell
def _(predict, rate, start, training):
    x = np.linspace(-3, 3, 64, dtype=np.float32)[:, None]
    y = np.sin(2 * x)
    training.load_state_dict(start)
    training.set(learning_rate=rate.value)
    losses = [float(training.step(x=x, y=y)) for _ in range(300)]
    curve = np.asarray(predict(x=x))
    return curve, losses, x, y


@app.cell
def _(curve, losses, x, y):
    mo.hstack(
        [
            lab.lines({"loss": (range(len(losses)), losses)}, "Loss by step", scale="log"),
            lab.lines({"sin 2x": (x[:, 0], y[:, 0]), "the model": (x[:, 0], curve[:, 0])}, "After 300 steps"),
        ]
    )


@app.cell
def _(losses):
    solved = np.isfinite(losses[-1]) and losses[-1] < 1e-3
    mo.md(f"""
    **Exercises.** Reach a loss below 0.001 in 300 steps. {"Done." if solved else f"Now it is {losses[-1]:.4g}."} At which rate
    does the loss of `sgd` no longer fall, and at which one does that of `adam`?
    """)
    return (solved,)


if __name__ == "__main__":
    app.run()
