"""Groups of parameters of eager optimizers, as in PyTorch: each has settings of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from tensorgrad.errors import OptionError
from tensorgrad.nn.module import Module
from tensorgrad.optim.settings import RATE, HostSettings
from tensorgrad.optim.transforms import Optimizer
from tensorgrad.tracing.tensor import Array

PARAMETERS, LR, BETAS = "params", "lr", "betas"


class ParameterGroup(MutableMapping[str, Any]):
    """Parameters and their settings by PyTorch's names; setting one changes it for the following steps.

    Args:
        optimizer: The optimizer.
        pattern: The pattern of the optimizer's group; `None` for the settings of all parameters.
        parameters: The tensors.
        settings: The current settings. What is zero for all parameters is not among them, and can't be changed.
    """

    def __init__(self, optimizer: Optimizer, pattern: str | None, parameters: Sequence[Array], settings: HostSettings):
        self._optimizer, self._pattern = optimizer, pattern
        self._parameters, self._settings = list(parameters), settings

    def __getitem__(self, name: str) -> Any:
        return self._items()[LR if name == RATE else name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Changes a setting.

        Raises:
            OptionError: There is no such setting, or it is out of range. Nothing is changed then.
        """
        self._settings.set(self._optimizer.name, self._pattern, {RATE if name == LR else name: value})

    def __delitem__(self, name: str) -> None:
        raise OptionError(f"{self._optimizer.name}: the settings of a group can be changed, not deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    def __repr__(self) -> str:
        settings = {name: value for name, value in self._items().items() if name != PARAMETERS}
        return f"ParameterGroup({len(self._parameters)} parameters, {settings})"

    def _items(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            **dict.fromkeys(self._optimizer.settings, 0.0),
            **self._settings.of_group(self._pattern),
        }
        if "beta1" in values and "beta2" in values:
            values[BETAS] = values.pop("beta1"), values.pop("beta2")
        return {PARAMETERS: self._parameters, LR: values.pop(RATE), **values}


def are_groups(parameters: Any) -> bool:
    """Returns whether parameters come in groups: a list of dicts that have `params`."""
    return (
        isinstance(parameters, list | tuple)
        and bool(parameters)
        and all(isinstance(group, Mapping) and PARAMETERS in group for group in parameters)
    )


def grouped(
    groups: Sequence[Mapping[str, Any]], rule: Callable[..., Optimizer], rate: Any, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], Optimizer]:
    """Returns parameters of groups by name, and the optimizer with the settings of each.

    A parameter's name starts with the number of its group: `0.weight`, or `0.0` in a list. Each group has all settings,
    so that each can be changed for it alone.

    Args:
        groups: For each, its parameters, `params`, and the settings that differ from those of all.
        rule: Makes the optimizer from a learning rate and settings.
        rate: The learning rate.
        settings: The other settings.

    Raises:
        OptionError: A setting is unknown or out of range.
    """
    shared = rule(rate, **settings).settings
    named: dict[str, Any] = {}
    own: dict[str, Mapping[str, Any]] = {}
    for number, group in enumerate(groups):
        named |= {f"{number}.{name}": parameter for name, parameter in by_name(group[PARAMETERS]).items()}
        changes = {RATE if name == LR else name: value for name, value in group.items() if name != PARAMETERS}
        own[f"{number}.*"] = {**shared, **changes}
    return named, rule(rate, **{**settings, "groups": {**own, **settings.get("groups", {})}})


def by_name(parameters: Any) -> dict[str, Any]:
    """Returns parameters by name: those of a list are called "0", "1", …."""
    if isinstance(parameters, Module):
        parameters = parameters.named_parameters()
    if isinstance(parameters, Array) or not isinstance(parameters, Iterable):
        parameters = [parameters]
    pairs = parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters)
    return {str(name): parameter for name, parameter in pairs}
