"""Matrix products and attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, rule
from tensorgrad.tracing.tensor import Tensor


@rule("linear")
def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = tg.matmul(input, tg.swapaxes(weight, -1, -2) if weight.ndim > 1 else weight)
    return product if bias is None else product + bias


@rule("matmul mm bmm dot mv vdot inner")
def _matmul(**factors: Tensor) -> Tensor:
    return tg.matmul(*factors.values())


def _with_term(term: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    scaled = product if alpha == 1 else product * alpha
    return scaled if beta == 0 else (term if beta == 1 else term * beta) + scaled


@rule("addmm baddbmm addmv")
def _add_product(self: Tensor, beta: float = 1, alpha: float = 1, **factors: Tensor) -> Tensor:
    return _with_term(self, tg.matmul(*factors.values()), beta, alpha)


@rule("addr")
def _addr(self: Tensor, vec1: Tensor, vec2: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return _with_term(self, tg.outer(vec1, vec2), beta, alpha)


@rule("outer")
def _outer(self: Tensor, vec2: Tensor) -> Tensor:
    return tg.outer(self, vec2)


@rule("einsum")
def _einsum(equation: str, tensors: Sequence[Tensor], path: Any = None) -> Tensor:
    return tg.einsum(equation, *tensors)


@rule("bilinear")
def _bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = tg.einsum("...i,kij,...j->...k", input1, weight, input2)
    return product if bias is None else product + bias


@rule("scaled_dot_product_attention", is_random=True)
def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    call: Call,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    q, k, v = (x if x.ndim > 2 else tg.expand_dims(x, 0) for x in (query, key, value))
    mask = attn_mask
    if is_causal and q.shape[-2] != k.shape[-2]:
        # PyTorch aligns the first query with the first key; here it is the last with the last.
        mask, is_causal = tg.tril(tg.ones((q.shape[-2], k.shape[-2]), "bool")), False
    dropout_key = call.key() if dropout_p else None
    result = tg.nn.scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, dropout_key)
    return tg.reshape(result, call.shape)


@rule("_grouped_mm")
def _grouped_mm(self: Tensor, mat2: Tensor, call: Call, offs: Tensor | None = None) -> Tensor:
    if offs is None:
        return tg.matmul(self, mat2)
    if self.ndim != 2 or mat2.ndim != 3:
        call.refuse("takes rows [rows, features] and one matrix for each group")
    return _by_groups(self, mat2, offs)


@rule("transformers.grouped_mm_fallback")
def _experts(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    return _by_groups(input, weight, offs)


def _by_groups(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Returns each row times the matrix of its group; groups follow each other, and end where `ends` says.

    Which rows are a group's is known only when the program runs, so each group's matrix is multiplied with all rows, of
    which the others are 0.
    """
    group = tg.searchsorted(ends, tg.arange(rows.shape[0]), side="right")
    chosen = tg.equal(tg.expand_dims(group, 0), tg.reshape(tg.arange(matrices.shape[0]), (-1, 1)))
    own = tg.where(tg.expand_dims(chosen, -1), rows, 0.0)  # [groups, rows, features]
    return tg.sum(tg.matmul(own, matrices), 0)
