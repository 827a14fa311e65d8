import marimo

app = marimo.App(width="medium", app_title="8. Write an optimizer")

with app.setup:
    from typing import Any

    import marimo as mo
    import numpy as np

    import tensorgrad as tg
    from tensorgrad import lab


@app.cell
def introduction():
    mo.md("""
    # 8. Write an optimizer

    An optimizer is a function of a gradient, its state and a parameter; it is traced into the step as the loss is, and fused
    into the kernels that compute the gradients. The one below goes down the slope. The loss is a valley: 100 times as steep
    across as along. Give it a momentum, which needs a state.
    """)


@app.cell
def _():
    source = mo.ui.code_editor(
        """
def init(parameter):
    return {}


def update(gradient, state, parameter, step, hyper):
    return parameter - hyper.learning_rate * gradient, state
""".strip(),
        language="python",
    )
    source
    return (source,)


@app.cell
def _():
    rate = mo.ui.slider(
        steps=[0.001, 0.002, 0.005, 0.01, 0.015, 0.019, 0.021], value=0.01, label="Learning rate", show_value=True
    )
    rate
    return (rate,)


@app.cell
def _(source):
    STEPS, steepness = 100, np.geomspace(1, 100, 8)

    def trained(optimizer):
        return tg.compile(
            {"x": np.ones(8)},
            loss=lambda model: tg.sum(steepness * model["x"] ** 2) / 2,
            optimizer=optimizer,
            inputs={},
            device="cpu",
        )

    names: dict[str, Any] = {"tg": tg}
    exec(source.value, names)
    training = trained(tg.optim.optimizer("mine", names["init"], names["update"], 0.01, {}))
    built_in = trained(tg.optim.sgd(0.01, momentum=0.9))
    starts = [(each, each.state_dict()) for each in (training, built_in)]
    return STEPS, built_in, starts, training


@app.cell
def _(STEPS, rate, starts):
    runs = []
    for each, start in starts:
        each.load_state_dict(start)
        each.set(learning_rate=rate.value)
        runs.append(each.run(STEPS, {}))
    mine, momentum = runs
    numbers = range(STEPS)
    lab.lines({"yours": (numbers, mine), "sgd with momentum 0.9": (numbers, momentum)}, "Loss by step", "log")
    return mine, momentum


@app.cell
def _(built_in, mine, momentum, training):
    solved = bool(mine[-1] <= momentum[-1] * 1.001)
    mo.md(f"""
    **Exercises.** Be as good as `sgd` with momentum after 100 steps. {"Done." if solved else f"Now: {mine[-1]:.3g}, and {momentum[-1]:.3g}."}
    Which rate is too large for yours, and is it too large with momentum? Your step has {training.stats()["dispatches"]}
    dispatches, the other {built_in.stats()["dispatches"]}: how many does a state add?
    """)
    return (solved,)


@app.cell
def _():
    level = mo.ui.radio(
        {"tg": "tg", "the shader": "wgsl", "the CPU's code": "llvm"}, value="tg", label="What became of it", inline=True
    )
    level
    return (level,)


@app.cell
def _(level, training):
    text = training.module(level.value)
    lab.code(text)
    return (text,)


if __name__ == "__main__":
    app.run()
