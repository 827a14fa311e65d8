"""Functions of a training's parameters, compiled beside its step: attached ones, captures and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tensorgrad.driver.compiling.compilation import Compilation, compile_recipe
from tensorgrad.driver.compiling.recipe import Recipe
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.driver.handles.compiled import Specialization
from tensorgrad.driver.precision import while_tracing
from tensorgrad.driver.stepping.distribution import Distribution, passes_of
from tensorgrad.driver.stepping.draws_check import warning_of_draws
from tensorgrad.driver.stepping.model_tracing import Check, checked_loss, chosen_captures, trace_model
from tensorgrad.driver.stepping.padding_check import warn_of_padding
from tensorgrad.driver.stepping.step_programs import StepProgram
from tensorgrad.driver.stepping.step_source import Source
from tensorgrad.nn.state import Assigning
from tensorgrad.optim.parts import wrt_of
from tensorgrad.passes.functions import order_parameters
from tensorgrad.passes.levels import LevelPass
from tensorgrad.passes.pipelines import forward_passes, tensor_passes
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.tracer import checked_module, function_name


class ModelFunctions:
    """Compiles functions that share a step's parameters.

    What it keeps for a program of the step, it keeps as long as the training keeps the program.

    Args:
        source: What the step was traced from.
        step: The step.
    """

    def __init__(self, source: Source, step: Compilation):
        self._source = source
        self._step = step
        self._captures: WeakKeyDictionary[StepProgram, dict[Sequence[str], Specialization]] = WeakKeyDictionary()
        self._gradients: WeakKeyDictionary[StepProgram, Specialization] = WeakKeyDictionary()

    def compiled(
        self,
        function: Callable[..., Any],
        specs: Mapping[str, Spec],
        check: Check,
        assigning: Assigning,
        what: str,
        precision: LevelPass | None,
        distribution: Distribution | None,
    ) -> Specialization:
        """Returns a function of the model, compiled for some inputs.

        Args:
            function: The function.
            specs: Its inputs.
            check: Checks its result.
            assigning: How assignments to buffers are treated; see `trace_model`.
            what: The method's name in error messages.
            precision: The pass that rounds values between kernels, or factors of products, or None.
            distribution: How it is divided among processes, if it is.
        """
        source, step, phases = self._source, self._step.recipe, Phases()
        draws = warning_of_draws(function_name(function))
        with phases.measure("trace"), while_tracing(what, precision), draws:
            traced = trace_model(source.model, function, specs, check, assigning, source.untrained)
            warn_of_padding(traced.function, specs, traced.function.sym_name.data)
        order_parameters(traced.function, self._step.interface.parameters)
        name, module = traced.function.sym_name.data, checked_module(traced.function)
        recipe = Recipe(
            name,
            module,
            lambda _, target: [*forward_passes(target), *passes_of(distribution, name)],
            step.device,
            precision=precision,
            timeout=step.timeout,
            verify=step.verify,
        )
        compilation = compile_recipe(recipe, phases, share=self._step.executable)
        return Specialization(compilation, traced.results, traced.ranges, distribution)

    def captures(self, program: StepProgram, patterns: Sequence[str]) -> Specialization:
        """Returns the loss up to the values that it captures, for a batch size.

        Args:
            program: The step for that batch size.
            patterns: The names of the values, or patterns, as a tuple.
        """
        by_patterns = self._captures.setdefault(program, {})
        if patterns not in by_patterns:
            check, precision = chosen_captures(patterns), self._step.recipe.precision
            by_patterns[patterns] = self.compiled(
                self._source.flat_loss,
                program.inputs,
                check,
                "dropped",
                "capture",
                precision,
                self._source.distribution,
            )
        return by_patterns[patterns]

    def gradients(self, program: StepProgram) -> Specialization:
        """Returns the loss with its gradients, by path, for a batch size."""
        if program not in self._gradients:
            self._gradients[program] = self._differentiated(program)
        return self._gradients[program]

    def _differentiated(self, program: StepProgram) -> Specialization:
        """Compiles the loss with its gradients, which are results named `gradient/<path>`."""
        step, source, phases = program.compilation.recipe, self._source, Phases()
        with phases.measure("trace"), while_tracing("gradients", step.precision):
            traced = trace_model(
                source.model, source.flat_loss, program.inputs, checked_loss, "dropped", source.untrained
            )
        order_parameters(traced.function, self._step.interface.parameters)
        name, wrt = traced.function.sym_name.data, wrt_of(traced.function, source.losses)
        recipe = Recipe(
            name,
            checked_module(traced.function),
            lambda segments, target: [
                *tensor_passes(name, [], segments, wrt, target),
                *passes_of(source.distribution, name),
            ],
            step.device,
            precision=step.precision,
            timeout=step.timeout,
            verify=step.verify,
        )
        results = {path: f"gradient/{path}" for paths in source.losses for path in paths}
        compilation = compile_recipe(recipe, phases, program.compilation.choice, share=self._step.executable)
        return Specialization(compilation, results, distribution=source.distribution)
