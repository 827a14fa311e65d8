import marimo

app = marimo.App(width="medium", app_title="5. Write a derivative")

with app.setup:
    from typing import Any

    import marimo as mo
    import numpy as np

    import tensorgrad as tg
    from tensorgrad import lab
    from tensorgrad.testing import check_grads


@app.cell
def introduction():
    mo.md("""
    # 5. Write a derivative

    `tg.custom_vjp` gives a function a derivative of one's own. The one below computes `log(1 + exp(x))`; its backward pass is
    wrong. `tg.testing.check_grads` compares it with differences of the function's values, in f64. Mend it.
    """)


@app.cell
def _():
    source = mo.ui.code_editor(
        """
def forward(x):
    return tg.log(1 + tg.exp(x)), x


def backward(x, g):
    return (g * tg.exp(x),)
""".strip(),
        language="python",
    )
    source
    return (source,)


@app.cell
def _(source):
    names: dict[str, Any] = {"tg": tg}
    exec(source.value, names)
    softplus = tg.custom_vjp(lambda x: names["forward"](x)[0])
    softplus.defvjp(names["forward"], names["backward"])
    points = np.linspace(-2, 2, 5)
    try:
        check_grads(softplus, (points,), order=1, modes=("rev",))
        complaint = ""
    except AssertionError as error:
        complaint = str(error)
    mo.md("**It is right.**" if not complaint else f"**It is wrong.**\n\n```\n{complaint}\n```")
    return complaint, softplus


@app.cell
def _(softplus):
    slope = tg.jit(tg.grad(lambda x: tg.sum(softplus(x))), device="cpu")
    slope(np.zeros(4, np.float32))
    mo.vstack([mo.md("What the compiler makes of the derivative:"), lab.code(slope.module("tg"))])
    return (slope,)


@app.cell
def _(complaint, softplus):
    largest = float(softplus(tg.array([100.0]))[0])
    mo.md(f"""
    **Exercises.** The derivative of `log(1 + exp(x))` is `1 / (1 + exp(-x))`. {"" if complaint else "Done."} At 100 the
    function is {largest:g} in f32: why, and how is it written so that it is 100? Compare with `tg.softplus`.
    """)
    return (largest,)


if __name__ == "__main__":
    app.run()
