"""What a training step was traced from, from which it can be traced again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorgrad.driver.stepping.distribution import Distribution
from tensorgrad.driver.stepping.nested_inputs import Nesting
from tensorgrad.nn.module import Module
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.optim.parts import Losses, Parts
from tensorgrad.runtime.group.group import Group
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.index_ranges import IndexRanges


@dataclass(frozen=True, eq=False)
class Source:
    """What a training step was traced from.

    Attributes:
        model: The declared model.
        loss: The loss.
        loss_inputs: The loss's inputs as the caller gave them.
        inputs: The specifications of their leaves by path, the key's included.
        nesting: Their trees.
        with_key: Whether the loss takes a key that the training makes for each step.
        results: The loss and metrics as a tree, with the names of outputs for leaves.
        ranges: The ranges that the loss requires of inputs that are used as indices.
        losses: The parameters that each loss is differentiated with respect to.
        untrained: The parameters that no optimizer updates.
        parts: Which optimizer updates which parameters.
        optimizer: The optimizer, or those of the parts, as the caller gave it.
        options: The other arguments of `tg.compile`, as the caller gave them.
        compile: `tg.compile`.
        distribution: How the step is divided among processes, if it is.
    """

    model: Module
    loss: Callable[..., Any]
    loss_inputs: Mapping[str, Any]
    inputs: Mapping[str, Spec]
    nesting: Nesting
    with_key: bool
    results: Any
    ranges: IndexRanges
    losses: Losses
    untrained: frozenset[str]
    parts: Parts
    optimizer: Any
    options: Mapping[str, Any]
    compile: Callable[..., Any]
    distribution: Distribution | None = None

    @property
    def flat_loss(self) -> Callable[..., Any]:
        """The loss as a function of the model and of the leaves of its inputs."""
        return self.nesting.function(self.loss)

    @property
    def group(self) -> Group | None:
        """The processes that run each step, or `None`."""
        return None if self.distribution is None else self.distribution.group

    @property
    def returned(self) -> Any:
        """The tree that a step returns: the loss, or a pair of that and its metrics."""
        results = self.results
        return results.loss if results.metrics is None else (results.loss, results.metrics)


def no_loss(model: Any) -> Any:
    """The loss of a program without one, which only holds its model for attached functions."""
    return as_tensor(0.0)
