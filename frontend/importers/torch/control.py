"""Control flow: conditionals and loops. Regions with settings of their own are dissolved before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, moving
from tensorgrad.tracing.tensor import Array, Tensor


@moving("higher_order.cond")
def _cond(predicate: Any, true_graph: Any, false_graph: Any, operands: Sequence[Any], call: Call) -> Any:
    if isinstance(predicate, (bool, Array)):
        return call.run(true_graph if bool(predicate) else false_graph, operands)
    return tg.cond(
        tg.reshape(predicate, ()),
        lambda *values: tuple(call.run(true_graph, values)),
        lambda *values: tuple(call.run(false_graph, values)),
        *operands,
    )


@moving("higher_order.scan")
def _scan(graph: Any, init: Sequence[Tensor], xs: Sequence[Tensor], additional: Sequence[Any], call: Call) -> Any:
    def body(carry: tuple[Tensor, ...], row: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        results = call.run(graph, [*carry, *row, *additional])
        return tuple(results[: len(init)]), tuple(results[len(init) :])

    last, rows = tg.scan(body, tuple(init), tuple(xs))
    return [*last, *rows]
