"""Control flow: conditionals, loops, and regions with settings of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, rule
from tensorgrad.tracing.tensor import Array, Tensor


@rule("higher_order.cond")
def _cond(predicate: Any, true_graph: Any, false_graph: Any, operands: Sequence[Any], call: Call) -> Any:
    if isinstance(predicate, (bool, Array)):
        return call.run(true_graph if bool(predicate) else false_graph, operands)
    return tg.cond(
        tg.reshape(predicate, ()),
        lambda *values: tuple(call.run(true_graph, values)),
        lambda *values: tuple(call.run(false_graph, values)),
        *operands,
    )


@rule("higher_order.scan")
def _scan(graph: Any, init: Sequence[Tensor], xs: Sequence[Tensor], additional: Sequence[Any], call: Call) -> Any:
    def body(carry: tuple[Tensor, ...], row: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        results = call.run(graph, [*carry, *row, *additional])
        return tuple(results[: len(init)]), tuple(results[len(init) :])

    last, rows = tg.scan(body, tuple(init), tuple(xs))
    return [*last, *rows]


@rule("higher_order.wrap_with_autocast")
def _autocast(device: Any, dtype: Any, enabled: Any, cache: Any, graph: Any, *operands: Any, call: Call) -> Any:
    return call.run(graph, operands)


@rule("higher_order.wrap_with_set_grad_enabled")
def _grad_mode(enabled: bool, graph: Any, *operands: Any, call: Call) -> Any:
    results = call.run(graph, operands)
    return results if enabled else [tg.stop_gradient(x) if isinstance(x, Tensor) else x for x in results]


@rule("higher_order.tag_activation_checkpoint")
def _checkpoint(graph: Any, *operands: Any, call: Call) -> Any:
    return tg.checkpoint(lambda *values: tuple(call.run(graph, values)))(*operands)
