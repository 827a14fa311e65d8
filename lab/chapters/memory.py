import marimo

app = marimo.App(width="medium", app_title="7. Read a memory plan")

with app.setup:
    import marimo as mo

    import tensorgrad as tg
    from tensorgrad import lab


@app.cell
def introduction():
    mo.md("""
    # 7. Read a memory plan

    All buffers of a step have their places before it runs. Buffers whose lives don't overlap share bytes: the picture has a
    bar for each, from the first dispatch that uses it to the last, at its offset. Change the depth, or limit the memory.
    """)


@app.cell
def _():
    depth = mo.ui.slider(1, 8, value=4, label="Layers", show_value=True)
    depth
    return (depth,)


@app.cell
def _():
    share = mo.ui.slider(60, 100, value=100, step=5, label="Memory limit, % of what a step takes", show_value=True)
    share
    return (share,)


@app.cell
def _(depth, share):
    class Layer(tg.nn.Module):
        """A dense layer and its activation."""

        def __init__(self):
            super().__init__()
            self.dense = tg.nn.Linear(64, 64)

        def __call__(self, x):
            return tg.tanh(self.dense(x))

    def compiled(**options):
        return tg.compile(
            tg.nn.Sequential(*[Layer() for _ in range(depth.value)]),
            loss=lambda model, x: tg.mean(model(x) ** 2),
            optimizer=tg.optim.sgd(0.1),
            inputs={"x": (512, 64)},
            device="cpu",
            **options,
        )

    training, refused = compiled(), ""
    if share.value < 100:
        try:
            training = compiled(memory_limit=training.program.statistics["peak_bytes"] * share.value // 100)
        except tg.errors.ProgramError as error:
            refused = str(error)
    facts = training.report().facts
    return facts, refused, training


@app.cell
def _(facts, refused):
    buffers = [value for value in facts.values if value.role == "workspace" and value.first >= 0]
    live = facts.live_bytes()
    mo.vstack(
        [
            mo.md(
                f"{len(buffers)} buffers of {sum(value.bytes for value in buffers):,} bytes share "
                f"**{facts.arenas['workspace']:,} bytes**; at most {max(live):,} are in use at once. {refused}"
            ),
            lab.memory(facts),
        ]
    )
    return buffers, live


@app.cell
def _(buffers):
    rows = sorted(buffers, key=lambda value: -value.bytes)[:12]
    columns = ("buffer", "type", "offset", "bytes", "first dispatch", "last dispatch")
    lab.table(columns, [(v.name, v.type, v.offset, f"{v.bytes:,}", v.first, v.last) for v in rows])


@app.cell
def _(facts, training):
    mo.md(f"""
    **Exercises.** Which layer's buffers live longest, and why? Limit the memory: parts of the forward pass are computed again
    in the backward pass. What does that cost in dispatches, and in bytes moved? Now a step has {facts.dispatches} dispatches
    and moves {training.stats()["bytes_moved"]:,} bytes.
    """)


if __name__ == "__main__":
    app.run()
