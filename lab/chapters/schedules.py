import marimo

app = marimo.App(width="medium", app_title="3. Schedules")

with app.setup:
    import marimo as mo

    from tensorgrad import lab
    from tensorgrad.passes.pipelines import read_passes, scheduled_passes
    from tensorgrad.runtime.cpu import CpuDevice


@app.cell
def introduction():
    mo.md("""
    # 3. Schedules

    A schedule says how the points of a kernel are computed: which of them together, in which order, by which task. It changes
    the speed and nothing else, and it is an attribute of the kernel. Change its numbers: a wrong schedule is refused by the
    verifier, or noticed because the values differ; a right one is timed.
    """)


@app.cell
def _():
    extent = mo.ui.dropdown(["64", "128", "256", "512"], value="128", label="The extent of both matrices")
    extent
    return (extent,)


@app.cell
def _(extent):
    square = f"tensor<{extent.value}x{extent.value}xf32>"
    product = f"""
func.func @product(%a: {square} {{tg.name = "a", tg.role = "input"}}, %b: {square} {{tg.name = "b", tg.role = "input"}}) -> ({square} {{tg.name = "c", tg.role = "output"}}) {{
  %c = tg.dot_general %a, %b lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0] : {square}, {square}
  func.return %c : {square}
}}
"""
    chosen = lab.run(product, read_passes("lower-tg-to-buf,fuse,schedule{target=cpu}"))[-1].text
    return (chosen,)


@app.cell
def _(chosen):
    scheduled = mo.ui.code_editor(chosen, label="The kernel, with the schedule that the compiler chose", max_height=420)
    scheduled
    return (scheduled,)


@app.cell
def _(scheduled):
    checked = lab.run(scheduled.value, scheduled_passes(CpuDevice().target))
    fault = checked[-1].fault
    return checked, fault


@app.cell
def _(chosen, fault, scheduled):
    before = lab.seconds_of(chosen)
    after = before if fault or scheduled.value == chosen else lab.seconds_of(scheduled.value)
    mo.md(
        f"**Refused.** {fault}"
        if fault
        else f"The values are right. The compiler's schedule takes **{1e6 * before:.0f} µs**, yours **{1e6 * after:.0f} µs**."
    )
    return after, before


@app.cell
def _(checked):
    with_code = mo.ui.radio(
        {step.name: step.text for step in checked}, value=checked[-1].name, label="Below it", inline=True
    )
    with_code
    return (with_code,)


@app.cell
def _(with_code):
    lab.code(with_code.value)


@app.cell
def _(after, before, fault):
    mo.md(f"""
    **Exercises.** Make the product at least twice as slow with a schedule that is right. Then find one that is refused, and
    one that is as fast as the compiler's. {"The first is done." if not fault and after > 2 * before else ""}
    """)


if __name__ == "__main__":
    app.run()
