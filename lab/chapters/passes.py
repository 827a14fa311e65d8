import marimo

app = marimo.App(width="medium", app_title="2. Passes")

with app.setup:
    import marimo as mo

    from tensorgrad import lab
    from tensorgrad.passes.pipelines import inference_passes
    from tensorgrad.runtime.cpu import CpuDevice


@app.cell
def introduction():
    mo.md("""
    # 2. Passes

    A compiler is a list of passes, each of which rewrites a module. Edit the module, leave passes out, move the slider: the
    diff is what a pass changed. After each pass the module is run on sampled inputs, and must compute what it computed
    before; where it can't, that is the last step.
    """)


@app.cell
def _():
    module = mo.ui.code_editor(
        """
func.func @layer(%x: tensor<64x32xf32> {tg.name = "x", tg.role = "input"}, %w: tensor<32x16xf32> {tg.name = "w", tg.role = "input"}, %b: tensor<16xf32> {tg.name = "b", tg.role = "input"}) -> (tensor<64x16xf32> {tg.name = "y", tg.role = "output"}) {
  %product = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : tensor<64x32xf32>, tensor<32x16xf32>
  %bias = tg.broadcast %b shape = [64, 16] dims = [1] : tensor<16xf32>
  %sum = tg.add %product, %bias : tensor<64x16xf32>, tensor<64x16xf32>
  %y = tg.tanh %sum : tensor<64x16xf32>
  func.return %y : tensor<64x16xf32>
}
""".strip(),
        label="A layer, as tensors",
    )
    module
    return (module,)


@app.cell
def _():
    passes = inference_passes(CpuDevice().target)
    return (passes,)


@app.cell
def _(passes):
    left_out = mo.ui.multiselect(list(dict.fromkeys(pass_.name for pass_ in passes)), label="Left out")
    left_out
    return (left_out,)


@app.cell
def _(left_out, module, passes):
    steps = lab.run(module.value, [pass_ for pass_ in passes if pass_.name not in left_out.value])
    lab.table(
        ("", "pass", "ms", "lines", "values"),
        [
            (number, step.name, f"{1e3 * step.seconds:.1f}", len(step.text.splitlines()), step.fault or "unchanged")
            for number, step in enumerate(steps)
        ],
    )
    return (steps,)


@app.cell
def _(steps):
    at = mo.ui.slider(0, max(1, len(steps) - 1), value=0, label="Pass", show_value=True, full_width=True)
    shown = mo.ui.radio(["what it changed", "all of it"], value="what it changed", inline=True)
    mo.vstack([at, shown])
    return at, shown


@app.cell
def _(at, shown, steps):
    step = steps[min(at.value, len(steps) - 1)]
    mo.vstack(
        [
            mo.md(f"**{step.name}**" + (f": {step.fault}" if step.fault else "")),
            lab.diff(step.changed) if shown.value == "what it changed" else lab.code(step.text),
        ]
    )
    return (step,)


@app.cell
def _(left_out, steps):
    ran = not steps[-1].fault
    kernels = steps[-1].text.count("llvm.func") if ran else 0
    solved = "fuse" in left_out.value and ran and kernels > 1
    mo.md(f"""
    **Exercise.** Without one of these passes the layer is computed just as well, but by more functions. Leave it out, and say
    which buffer then exists that didn't before. {"Right." if solved else "Not yet."}
    """)
    return kernels, ran, solved


if __name__ == "__main__":
    app.run()
