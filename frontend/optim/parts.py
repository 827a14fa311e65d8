"""The parts of a model: which optimizer updates which parameters."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tensorgrad.dialects.signature import Role, arguments_of
from tensorgrad.errors import OptionError, ParameterError
from tensorgrad.nn.parameters import Parameter
from tensorgrad.nn.weights import Weight
from tensorgrad.optim.schedules import Schedule
from tensorgrad.optim.settings import RATE, Setting
from tensorgrad.optim.tracing import add_updates
from tensorgrad.optim.transforms import Optimizer
from tensorgrad.tracing.dtypes import Spec

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp


Losses: TypeAlias = tuple[tuple[str, ...], ...]
"""For each loss, in the order of a function's results, the parameters it is differentiated with respect to, by path."""


@dataclass(frozen=True)
class Part:
    """Parameters that one optimizer updates.

    Attributes:
        name: The part of the model; `None` if there is one optimizer for all.
        optimizer: The optimizer.
        parameters: Their paths.
        host: The prefix of the names under which the host passes settings.
    """

    name: str | None
    optimizer: Optimizer
    parameters: tuple[str, ...]
    host: str = ""

    def host_settings(self) -> dict[str, Setting]:
        """Returns the settings that `Training.set` changes, by their names in formulas."""
        results = dict(self.optimizer.host_settings())
        if self.name is None:
            return results
        return {
            self.host + name: replace(
                setting, group=self.name if setting.group is None else f"{self.name}/{setting.group}"
            )
            for name, setting in results.items()
        }


@dataclass(frozen=True)
class Parts:
    """The parts of a model that are trained; none for a program that trains nothing."""

    all: tuple[Part, ...] = ()

    @property
    def trained(self) -> list[str]:
        """The paths of all parameters that are trained."""
        return [path for part in self.all for path in part.parameters]

    def host_settings(self) -> dict[str, Setting]:
        """Returns the settings of all optimizers, by their names in formulas."""
        return {name: host_setting for part in self.all for name, host_setting in part.host_settings().items()}

    def add_updates(self, module: ModuleOp, parameters: Mapping[str, Parameter | Weight]) -> None:
        """Adds the update functions of all optimizers to a module.

        Raises:
            OptionError: A pattern of an optimizer matches no parameter, or an update function returns something wrong.
        """
        for number, part in enumerate(self.all):
            specs = {path: Spec(parameters[path].shape, parameters[path].dtype) for path in part.parameters}
            add_updates(module, part.optimizer, specs, number, part.host)

    @property
    def rates(self) -> dict[str | None, tuple[str, Schedule | None]]:
        """For each part, the name of its learning rate in formulas, and its schedule."""
        return {part.name: (part.host + RATE, part.optimizer.schedule) for part in self.all}


def parts_of(optimizer: Any, parameters: Mapping[str, Parameter | Weight]) -> Parts:
    """Returns which optimizer updates which parameters.

    Args:
        optimizer: One for all; one for each part of a model, by the path of that part, or `None` for a part that is not
            trained; or `None`.
        parameters: All parameters of the model by path.

    Raises:
        OptionError: It is none of these, there is no such part, or an optimizer can't update a parameter.
        ParameterError: A parameter is in no part, or in two.
    """
    trainable = [path for path, parameter in parameters.items() if parameter.trainable]
    if optimizer is None:
        return Parts()
    if not isinstance(optimizer, Mapping):
        _check_optimizer(optimizer)
        return Parts((_part(None, optimizer, trainable, parameters, ""),) if trainable else ())
    owners = _owners(list(optimizer), trainable, parameters)
    parts: list[Part] = []
    for number, (name, part_optimizer) in enumerate(optimizer.items(), 1):
        if part_optimizer is None:
            continue
        _check_optimizer(part_optimizer)
        paths = [path for path in trainable if owners[path] == name]
        if paths:
            parts.append(_part(name, part_optimizer, paths, parameters, f"part{number}_"))
    return Parts(tuple(parts))


def _part(
    name: str | None,
    optimizer: Optimizer,
    paths: Sequence[str],
    parameters: Mapping[str, Parameter | Weight],
    host: str,
) -> Part:
    optimizer.check_parameters({path: parameters[path].shape for path in paths})
    return Part(name, optimizer, tuple(paths), host)


def _check_optimizer(optimizer: object) -> None:
    if not isinstance(optimizer, Optimizer):
        named = f"the function {getattr(optimizer, '__name__', '')}, which has to be called"
        raise OptionError(
            f"optimizer must be one of tg.optim, such as tg.optim.adam(1e-3), a dict of them by the "
            f"parts of the model, or None, got {named if callable(optimizer) else repr(optimizer)}"
        )


def _owners(
    names: Sequence[Any], trainable: Sequence[str], parameters: Mapping[str, Parameter | Weight]
) -> dict[str, str]:
    """Returns the part of each trainable parameter."""
    owners: dict[str, str] = {}
    for name in names:
        inside = [path for path in parameters if path == name or path.startswith(f"{name}.")]
        if not inside:
            there = list(dict.fromkeys(path.partition(".")[0] for path in parameters))
            near = difflib.get_close_matches(str(name), there, cutoff=0)
            raise OptionError(
                f"optimizer: {name!r} is not a part of the model with parameters of its own; there are "
                f"{', '.join(near)} (parameters of a module with two names belong to the first: copy it)"
            )
        for path in inside:
            if path in owners:
                raise ParameterError(f"optimizer: {path!r} is in two parts, {owners[path]!r} and {name!r}")
            owners[path] = name
    missing = [path for path in trainable if path not in owners]
    if missing:
        raise ParameterError(
            f"optimizer: no part has {', '.join(missing)}; give a part None if it is not to be trained"
        )
    return owners


def losses_of(results: Any, parts: Parts, function: str) -> Losses:
    """Returns the parameters to differentiate each loss by: all trained ones, or those of the loss's part.

    Args:
        results: The function's result: the name of one loss, or those of several by part.
        parts: The parts that are trained.
        function: The function's name in messages.

    Raises:
        OptionError: The names of the losses are not those of the parts that are trained.
    """
    if not isinstance(results, Mapping):
        return (tuple(parts.trained),) if parts.all else ()
    by_part = {part.name: part.parameters for part in parts.all}
    if parts.all and by_part.keys() != results.keys():
        trained = ", ".join("all together" if name is None else repr(name) for name in by_part)
        raise OptionError(
            f"{function}() gives losses of {', '.join(map(repr, results))}; what is trained is "
            f"{trained}: optimizer= has to have one of tg.optim for each loss, by the same name, and None for every "
            "other part"
        )
    return tuple(by_part[name] for name in sorted(results, key=str)) if parts.all else ()


def wrt_of(function: FuncOp, losses: Losses) -> tuple[tuple[int, ...] | None, ...]:
    """Returns the positions of the arguments to differentiate each loss by; `None` for all parameters."""
    places = {slot.name: place for place, slot in enumerate(arguments_of(function)) if slot.role == Role.PARAMETER}
    return tuple(None if len(paths) == len(places) else tuple(places[path] for path in paths) for paths in losses)
