"""Gradient transformations, and optimizers, which update parameters.

Each is two functions of tensors, `init(parameter)` and `update(gradient, state, parameter, step, hyper)`, as in optax.
They are traced into the training step like a loss. `hyper` has the hyper-parameters, which are host scalars like the
step: see `tensorgrad.optim.scalars`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.optim.groups import Decay, Groups, check_choice, chosen, group_numbers
from tensorgrad.optim.schedules import Rate, Schedule, as_schedule, checked
from tensorgrad.optim.settings import (
    ALWAYS,
    DECAY,
    RATE,
    Setting,
    checked_groups,
    checked_setting,
    host_name,
    host_settings,
)

OTHERS = "others_"
"""The prefix of the names in formulas of the settings of `others`."""

Init: TypeAlias = Callable[..., Mapping[str, Any]]
"""Returns the initial state of a parameter, by name."""
Update: TypeAlias = Callable[..., tuple[Any, Mapping[str, Any]]]
"""Returns the next gradient, or parameter, and the next state."""


def no_state(parameter: Any) -> Mapping[str, Any]:
    """Returns no state."""
    return {}


def zeros_of(*names: str) -> Init:
    """Returns an `init` whose state is tensors of the parameter's shape, initially zero.

    Example:
        >>> state = tg.optim.zeros_of("momentum")(tg.nn.param((3,), init=0.0))
        >>> state["momentum"].shape
        (3,)
    """
    return lambda parameter: {name: tg.zeros(parameter.shape) for name in names}


@dataclass(frozen=True)
class Transformation:
    """A gradient transformation, applied before an optimizer: a link of `chain`.

    Attributes:
        name: Its name, which state and settings have as a prefix.
        init: `init(parameter)` returns the initial state by name.
        update: `update(gradient, state, parameter, step, hyper)` returns the next gradient and state.
        settings: Its hyper-parameters.
        schedule: A schedule that scales the first of them, if there is one.
        only: The parameters that it applies to, if not to all.
        batched: Whether parameters of the same shape run through it as a batch, packed into rows with the following
            links.

    Example:
        >>> tg.optim.clip(1.0).settings
        {'max_delta': 1.0}
    """

    name: str
    init: Init = field(repr=False)
    update: Update = field(repr=False)
    settings: Mapping[str, float] = field(default_factory=dict[str, float])
    schedule: Schedule | None = None
    only: Decay | None = None
    batched: bool = False


@dataclass(frozen=True)
class ChainStage:
    """A link or an optimizer in a chain, to be traced.

    Attributes:
        label: The prefix of the names of its state.
        init: Returns the initial state.
        update: Returns the next gradient or parameter, and state.
        tables: For each parameter that it applies to, the formula of each hyper-parameter, or 0.0 for one that the
            program doesn't use.
        batched: Whether parameters of the same shape run through it as a batch.
        is_last: Whether it returns the parameter.
    """

    label: str
    init: Init
    update: Update
    tables: Mapping[str, Mapping[str, str | float]]
    batched: bool = False
    is_last: bool = False


@dataclass(frozen=True)
class Optimizer:
    """An optimizer with its settings, as `sgd`, `adam` and so on return it, or `optimizer` for a custom one.

    Attributes:
        name: Its name, which state has as a prefix.
        init: `init(parameter)` returns the initial state by name.
        update: `update(gradient, state, parameter, step, hyper)` returns the next parameter and state.
        settings: Its hyper-parameters; the first is the learning rate.
        schedule: The schedule of the learning rate, if there is one.
        clip_norm: The global norm to which larger gradients are scaled down, if there is one.
        decay: Which parameters have a weight decay; `None` is all of them.
        groups: Settings that some parameters override, by pattern.
        links: The gradient transformations before it, in order.
        inner: The gradient transformations after these, which share the optimizer's settings and state.
        only: Which parameters it updates, if not all that it can.
        others: The optimizer of the remaining parameters, if there is one.
        rank: The rank of the parameters that it can update, if not any rank.
        state: The prefix of its state, if not the name.

    Example:
        >>> adam = tg.optim.adam(1e-3, weight_decay=0.1, clip_norm=1.0)
        >>> adam.name, adam.settings["weight_decay"], adam.clip_norm
        ('adam', 0.1, 1.0)
    """

    name: str
    init: Init = field(repr=False)
    update: Update = field(repr=False)
    settings: Mapping[str, float]
    schedule: Schedule | None = None
    clip_norm: float | None = None
    decay: Decay | None = None
    groups: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    links: tuple[Transformation, ...] = ()
    inner: tuple[Transformation, ...] = field(default=(), repr=False)
    only: Decay | None = None
    others: Optimizer | None = None
    rank: int | None = None
    state: str | None = None

    @property
    def learning_rate(self) -> float:
        """The initial learning rate, or the rate that the schedule scales."""
        return self.settings[RATE]

    @property
    def label(self) -> str:
        """The prefix of its state."""
        return self.name if self.state is None else self.state

    def uses(self, setting: str) -> bool:
        """Returns whether a setting is nonzero for any parameter."""
        return any(values.get(setting) for values in (self.settings, *self.groups.values()))

    def check_parameters(
        self, shapes: Mapping[str, tuple[int, ...]], among: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        """Checks that every parameter has an optimizer.

        Args:
            shapes: The shapes of the trained parameters, by path.
            among: The shapes of all parameters that patterns select from; the same by default.

        Raises:
            OptionError: One has none; says why, and what to do about it.
        """
        if self.rank is None or self.others is not None:
            return
        covered = self._taken(shapes if among is None else among)
        for path, shape in shapes.items():
            if path not in covered:
                what = f"does not have {self.rank} axes" if len(shape) != self.rank else "is not among only="
                raise OptionError(
                    f"{self.name}: {path!r} of shape {list(shape)} {what}; give others=, an optimizer for the rest, "
                    "such as others=tg.optim.adamw(3e-4)"
                )

    def host_settings(self) -> dict[str, Setting]:
        """Returns the settings that `Training.set` changes, by their names in formulas."""
        own = host_settings(self.settings, self.clip_norm, self.groups)
        rates = _called(self.schedule)
        own = {
            name: replace(setting, schedule=rates) if setting.name == RATE else setting for name, setting in own.items()
        }
        for number, (link, label) in enumerate(self.labeled(), 1):
            own |= {
                f"link{number}_{name}": Setting(name, label, value, _called(link.schedule))
                for name, value in link.settings.items()
            }
        if self.others is not None:
            for name, host_setting in self.others.host_settings().items():
                label = "others" if host_setting.group is None else f"others/{host_setting.group}"
                own[OTHERS + name] = Setting(host_setting.name, label, host_setting.value, host_setting.schedule)
        return own

    def labeled(self) -> list[tuple[Transformation, str]]:
        """Returns the links, each with the unique name that its settings and state have."""
        names = [link.name for link in self.links]
        numbers = [names[: place + 1].count(name) for place, name in enumerate(names)]
        return [
            (link, link.name if number == 1 else f"{link.name}.{number}")
            for link, number in zip(self.links, numbers, strict=True)
        ]

    def stages(self, shapes: Mapping[str, tuple[int, ...]], host: str = "") -> list[ChainStage]:
        """Returns the stages that gradients of parameters pass through, in order.

        Args:
            shapes: The shapes of the parameters by path.
            host: The prefix of the names of settings in formulas.

        Raises:
            OptionError: A pattern matches no parameter.
        """
        paths = list(shapes)
        stages: list[ChainStage] = []
        for number, (link, label) in enumerate(self.labeled(), 1):
            table: dict[str, str | float] = {
                name: f"{host}link{number}_{name}" if value or name in ALWAYS else 0.0
                for name, value in link.settings.items()
            }
            if link.schedule is not None and link.schedule.text is not None:
                first = next(iter(table))
                table[first] = _scaled(f"{table[first]}", link.schedule.text)
            what = "decay" if DECAY in link.settings else "only"
            concerned = paths if link.only is None else chosen(link.name, link.only, paths, what)
            stages.append(ChainStage(label, link.init, link.update, dict.fromkeys(concerned, table), link.batched))
        if self.clip_norm is not None:
            clip = clip_by_global_norm(self.clip_norm)
            tables = {path: {"max_norm": f"{host}clip_norm"} for path in paths}
            stages.append(ChainStage("clip_norm", clip.init, clip.update, tables))
        return stages + self._own_stages(shapes, paths, host)

    def _own_stages(self, shapes: Mapping[str, tuple[int, ...]], paths: Sequence[str], host: str) -> list[ChainStage]:
        covered = self._taken(shapes)
        every = self._tables(paths, host)
        tables = {path: every[path] for path in covered}
        inner = [ChainStage(self.label, link.init, link.update, tables, link.batched) for link in self.inner]
        last = ChainStage(self.label, self.init, self.update, tables, bool(inner), is_last=True)
        if self.others is None:
            return [*inner, last]
        rest = {path: shape for path, shape in shapes.items() if path not in covered}
        others = self.others._tables(paths, host + OTHERS)
        update = self.others
        return [
            *inner,
            last,
            ChainStage(update.label, update.init, update.update, {path: others[path] for path in rest}, is_last=True),
        ]

    def _taken(self, shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
        """Returns the parameters that it updates itself, rather than `others`."""
        paths = list(shapes) if self.only is None else chosen(self.name, self.only, list(shapes), "only")
        return [path for path in paths if self.rank is None or len(shapes[path]) == self.rank]

    def _tables(self, paths: Sequence[str], host: str) -> dict[str, dict[str, str | float]]:
        """Returns each setting's formula, or 0.0, by parameter."""
        live = host_settings(self.settings, self.clip_norm, self.groups)
        numbers = group_numbers(self.name, self.groups, paths)
        decaying = paths if self.decay is None else chosen(self.name, self.decay, paths)
        return {path: self._table(numbers[path], live, path in decaying, host) for path in paths}

    def _table(
        self, numbers: Mapping[str, int], live: Mapping[str, Setting], decays: bool, host: str
    ) -> dict[str, str | float]:
        results: dict[str, str | float] = {}
        for name in self.settings:
            key = host_name(numbers.get(name, 0), name)
            results[name] = 0.0 if key not in live or (name == DECAY and not decays) else host + key
        if self.schedule is not None and self.schedule.text is not None:
            results[RATE] = _scaled(f"{results[RATE]}", self.schedule.text)
        return results


def _scaled(name: str, factor: str) -> str:
    return f"({name} * ({' '.join(factor.split())}))"


def _called(schedule: Schedule | None) -> Schedule | None:
    """Returns a schedule that the host has to call; `None` for a formula, which is part of the program."""
    return None if schedule is None or schedule.text is not None else schedule


def optimizer(
    name: str,
    init: Init,
    update: Update,
    learning_rate: Rate,
    settings: Mapping[str, Any] | None = None,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Optimizer:
    """Returns a custom optimizer, from two functions of tensors. It can be used wherever one of `tg.optim` can.

    `init(parameter)` returns the initial state, a dict of tensors. `update(gradient, state, parameter, step, hyper)`
    returns the updated parameter and the next state. `hyper.learning_rate` and the other hyper-parameters, and `step`,
    which counts from 1, are host scalars: the host computes expressions of them. A hyper-parameter that is 0 for all
    parameters is the number 0.0, so that `if hyper.momentum:` omits the code that it needs. `hyper.weight_decay` is 0.0
    for parameters that `decay` excludes. `hyper.norm` is the global norm of the gradients.

    Both functions are traced once for each shape of a parameter. If they are elementwise, one kernel updates all
    parameters wherever it would for a built-in optimizer.

    Args:
        name: The optimizer's name. State is `<name>.<key>/<path>` in checkpoints.
        init: Returns the initial state.
        update: Returns the next parameter and state.
        learning_rate: A number, one of `tg.optim.schedules`, or a function of the step.
        settings: The other hyper-parameters with their initial values; `Training.set` changes them.
        decay: Which parameters have a weight decay, by name: a glob, several, or a predicate; all by default.
        clip_norm: The global norm to which larger gradients are scaled down.
        groups: Settings that some parameters override, by pattern.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> def update(gradient, state, parameter, step, hyper):
        ...     return parameter - hyper.learning_rate * tg.sign(gradient), state
        >>> signs = tg.optim.optimizer("signs", lambda parameter: {}, update, 0.1)
        >>> signs.settings
        {'learning_rate': 0.1}
    """
    _check_functions(name, init, update)
    if callable(learning_rate):
        schedule = as_schedule(name, learning_rate)
        rate = schedule.rate
    else:
        schedule, rate = None, checked(name, RATE, learning_rate)
    if clip_norm is not None:
        clip_norm = checked_setting(name, "clip_norm", clip_norm)
    check_choice(name, decay)
    numbers = {RATE: rate, **{key: checked_setting(name, key, value) for key, value in (settings or {}).items()}}
    by_pattern = {} if groups is None else checked_groups(name, groups, list(numbers))
    return Optimizer(name, init, update, numbers, schedule, clip_norm, decay, by_pattern)


def _check_functions(name: str, init: Init, update: Update) -> None:
    """Checks the name and the functions of an optimizer or a link.

    Raises:
        OptionError: The name could be mistaken for a parameter's in a checkpoint, or one is not a function.
    """
    if not isinstance(name, str) or not name or "/" in name:
        raise OptionError(f"an optimizer's name must be text without a slash, got {name!r}")
    for what, function in (("init", init), ("update", update)):
        if not callable(function):
            raise OptionError(f"{name}: {what} must be a function, got {function!r}")


def transformation(
    name: str,
    init: Init,
    update: Update,
    settings: Mapping[str, Any] | None = None,
    *,
    only: Decay | None = None,
) -> Transformation:
    """Returns a custom link of `chain`, from two functions of tensors; see `optimizer`.

    Args:
        name: The link's name. State is `<name>.<key>/<path>` in checkpoints.
        init: `init(parameter)` returns the initial state, a dict of tensors.
        update: `update(gradient, state, parameter, step, hyper)` returns the next gradient and state.
        settings: Its hyper-parameters with their initial values; `Training.set(group=name, ...)` changes them.
        only: The parameters that it applies to, by name: a glob, several, or a predicate; all by default.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> def update(gradient, state, parameter, step, hyper):
        ...     return hyper.factor * tg.sign(gradient), state
        >>> tg.optim.transformation("signs", lambda parameter: {}, update, {"factor": 0.1}).settings
        {'factor': 0.1}
    """
    _check_functions(name, init, update)
    check_choice(name, only)
    numbers = {key: checked_setting(name, key, value) for key, value in (settings or {}).items()}
    return Transformation(name, init, update, numbers, only=only)


def chain(*links: Transformation | Optimizer) -> Optimizer:
    """Returns an optimizer preceded by gradient transformations.

    `chain(clip_by_global_norm(1.0), add_decayed_weights(0.1), adam(1e-3))`: each link takes the gradients from the
    previous one, and the last is an optimizer. Links are fused into the kernels of gradients and of the update, and add
    none, except those that depend on the global norm: two each, or, if it is not the first such link, two for each
    group of parameters that are updated together; and except `normalize_per_parameter`.

    Args:
        *links: Gradient transformations, and at the end an optimizer or `scale_by_learning_rate`.

    Returns:
        The optimizer. `Training.set(group=name, ...)` changes settings of the link of that name; if two links have the
        same name, the second is called `<name>.2`, and so on.

    Raises:
        OptionError: The last is not an optimizer, or an earlier one is.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.chain(tg.optim.clip(1.0), tg.optim.scale(0.5), tg.optim.sgd(1.0))).step()
        >>> x.detach()
        Array([ 0.5 , -2.25], dtype=f32, device='numpy')
    """
    *before, last = links or (None,)
    if not isinstance(last, Optimizer):
        raise OptionError(f"chain: the last must be an optimizer, or scale_by_learning_rate(...), got {last!r}")
    for link in before:
        if not isinstance(link, Transformation):
            raise OptionError(f"chain: all but the last must be links such as tg.optim.clip(1.0), got {link!r}")
    chained = replace(last, links=(*(link for link in before if isinstance(link, Transformation)), *last.links))
    labels = {label for _, label in chained.labeled()}
    for pattern in chained.groups:
        if pattern in labels:
            raise OptionError(f"chain: the group {pattern!r} has the name of a link")
    return chained


def masked(link: Transformation, only: Decay) -> Transformation:
    """Applies a link to some parameters only, like `optax.masked`; the gradients of others are unchanged.

    Args:
        link: The link. If it depends on the global norm, that is still the norm of all gradients.
        only: The parameters that it applies to, by name: a glob, several, or a predicate.

    Raises:
        OptionError: It is not a link, or already selects its parameters.

    Example:
        >>> layer = tg.nn.Linear(2, 1, init=1.0, bias_init=1.0).initialized(0, device="numpy")
        >>> (3.0 * layer(tg.ones((1, 2)))).sum().backward()
        >>> clipped = tg.optim.masked(tg.optim.clip(1.0), only="weight")
        >>> tg.optim.Stepper(layer.named_parameters(), tg.optim.chain(clipped, tg.optim.sgd(1.0))).step()
        >>> layer.weight.tolist(), layer.bias.tolist()
        ([[0.0], [0.0]], [-2.0])
    """
    if not isinstance(link, Transformation) or link.only is not None:
        raise OptionError(f"masked: takes a link such as tg.optim.clip(1.0), without a choice of its own, got {link!r}")
    check_choice(link.name, only, "only")
    return replace(link, only=only)


def clip_by_global_norm(max_norm: float) -> Transformation:
    """Scales gradients down to a maximum global norm: by `max_norm / (norm + 1e-6)`, if that is below 1.

    This is what `torch.nn.utils.clip_grad_norm_` does; optax omits the `1e-6`. An optimizer's `clip_norm=` is this link
    immediately before it.

    Args:
        max_norm: The maximum norm.

    Raises:
        OptionError: It is not a number, or not more than 0.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.chain(tg.optim.clip_by_global_norm(1.0), tg.optim.sgd(1.0))).step()
        >>> x.detach()
        Array([ 0.01360643, -2.164399  ], dtype=f32, device='numpy')
    """
    return transformation("clip_by_global_norm", no_state, _clipped, {"max_norm": max_norm})


def _clipped(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
    scale = hyper.max_norm / (hyper.norm + 1e-6)
    return gradient * tg.where(scale > 1.0, 1.0, scale), state  # NaN stays NaN
