import marimo

app = marimo.App(width="medium", app_title="6. Plant a bug, and find it")

with app.setup:
    from dataclasses import dataclass

    import marimo as mo
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from tensorgrad import lab
    from tensorgrad.dialects.tg import elementwise
    from tensorgrad.passes.pipelines import inference_passes
    from tensorgrad.runtime.cpu import CpuDevice


@app.cell
def introduction():
    mo.md("""
    # 6. Plant a bug, and find it

    Below is the body of a rewrite, which runs among the compiler's own passes; it forgets something. After each pass the module
    runs on sampled inputs, so the pass that changes a value is named, and by how much. Then mend it.
    """)


@app.cell
def _():
    body = mo.ui.code_editor(
        """
# `op` is each op of the module: x * x becomes x.
if op.name == "tg.mul" and op.operands[0] is op.operands[1]:
    op.results[0].replace_all_uses_with(op.operands[0])
""".strip(),
        language="python",
    )
    body
    return (body,)


@app.cell
def _():
    at = mo.ui.slider(0, 6, value=2, label="After how many passes it runs", show_value=True)
    at
    return (at,)


@app.cell
def _(body):
    @dataclass(frozen=True)
    class PlantedPass(ModulePass):
        """The rewrite of the cell above."""

        name = "planted"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            code = compile(body.value, "<planted>", "exec")
            for inner in list(op.walk()):
                exec(code, {"op": inner, "elementwise": elementwise})

    return (PlantedPass,)


@app.cell
def _(PlantedPass, at):
    module = """
func.func @f(%x: tensor<8xf32> {tg.name = "x", tg.role = "input"}) -> (tensor<8xf32> {tg.name = "y", tg.role = "output"}) {
  %square = tg.mul %x, %x : tensor<8xf32>, tensor<8xf32>
  %y = tg.exp %square : tensor<8xf32>
  func.return %y : tensor<8xf32>
}
"""
    passes = inference_passes(CpuDevice().target)
    steps = lab.run(module, [*passes[: at.value], PlantedPass(), *passes[at.value :]])
    lab.table(("pass", "values"), [(step.name, step.fault or "unchanged") for step in steps])
    return module, passes, steps


@app.cell
def _(steps):
    solved = not steps[-1].fault
    mo.md(f"""
    **Exercises.** Which pass is blamed, and does that depend on where the rewrite runs? Let it replace something that may be
    replaced. {"No value changes now." if solved else f"Now: {steps[-1].fault}"} Then plant one that the check can't notice.
    """)
    return (solved,)


if __name__ == "__main__":
    app.run()
