"""Emitted kernels are proved, and every planted fault is found, without running any kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from cases import CASES, covering
from emitted import TARGETS, fitting, kernels_of, kernels_of_workload, lowered
from enumerated import Faults
from mutations import mutants
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from benchmarks.workloads import NAMES
from tensorgrad.checks.proving.kernels import Proved, prove_module
from tensorgrad.checks.proving.properties import Property, Status
from tensorgrad.checks.proving.report import reasons
from tensorgrad.dialects import cpu, wgsl
from tensorgrad.dialects.buf import DispatchOp
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.target import CPU, WEBGPU_DEFAULT, Target
from tensorgrad.tracing.tracer import trace

EVERY = 8
"""Which of the cases that take every branch of the compiler are proved on each run: every eighth."""


SOFTWARE = Target.named("lavapipe")
"""A software adapter, which gets kernels of its own."""


def ones(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.ones(shape, np.float32) for shape in shapes]


ARCHETYPES: dict[str, tuple[Callable[..., Any], list[np.ndarray], Target]] = {
    "a point kernel": (lambda x, y: tg.tanh(x) + y, ones((5, 30), (30,)), WEBGPU_DEFAULT),
    "a view": (lambda x: tg.roll(x.T, 2, axis=0) * 2.0, ones((9, 15)), WEBGPU_DEFAULT),
    "a sum": (lambda x: tg.sum(x, axis=0), ones((130, 3)), WEBGPU_DEFAULT),
    "a row": (lambda x: tg.softmax(x, axis=-1), ones((3, 300)), WEBGPU_DEFAULT),
    "a product": (lambda x, y: x @ y, ones((17, 33), (33, 9)), WEBGPU_DEFAULT),
    "a convolution": (lambda x, w: tg.conv2d(x, w), ones((1, 2, 6, 7), (3, 2, 3, 3)), WEBGPU_DEFAULT),
    "a shared dispatch": (lambda x, y: (tg.exp(x), tg.sum(y, axis=1)), ones((70,), (4, 5)), WEBGPU_DEFAULT),
    "a product on a software adapter": (lambda x, y: x @ y, ones((17, 33), (33, 9)), SOFTWARE),
    "native loops": (lambda x, y: tg.sum(tg.tanh(x) * y, axis=1), ones((5, 30), (30,)), CPU),
    "a packed product": (lambda x, y: x @ y, ones((2, 16, 16), (2, 16, 16)), CPU),
    "windows of split lines": (lambda x, w: tg.relu(tg.conv(x, w, padding=1)), ones((1, 2, 5, 5), (4, 2, 3, 3)), CPU),
    "windows of whole lines": (lambda x, w: tg.conv(x, w, padding=1), ones((1, 2, 3, 8), (4, 2, 3, 3)), CPU),
    "windows with holes": (lambda x, w: tg.conv_transpose(x, w, stride=2), ones((1, 2, 5), (2, 3, 3)), CPU),
}


def archetype(name: str) -> ModuleOp:
    """Returns the kernels of an archetype."""
    function, inputs, target = ARCHETYPES[name]
    return lowered(trace(function, *inputs), inference_passes(target))


def faults(module: ModuleOp) -> set[str]:
    """Returns the properties that don't hold of some kernel, after going through all invocations."""
    kernels = {op.sym_name.data: op for op in module.walk() if isinstance(op, wgsl.KernelOp | cpu.KernelOp)}
    dispatches = [op for op in module.walk() if isinstance(op, DispatchOp)]
    return set().union(*(Faults(kernels[op.kernel.root_reference.data], op).found for op in dispatches))


def unproved(proofs: list[Proved]) -> set[str]:
    """Returns the properties that are not proved of some kernel."""
    return {verdict.property.value for proof in proofs for verdict in proof.open}


@pytest.mark.parametrize("name", ARCHETYPES)
def test_archetypes_are_proved(name: str) -> None:
    module = archetype(name)
    assert faults(module) == set()
    assert reasons(prove_module(module)) == []


@dataclass
class Planted:
    """What came of the faults planted in an archetype.

    Attributes:
        real: Those that break a property, as going through all invocations shows.
        refuted: Those for which the proof gives an example.
        harmless: Those that break none, such as a loop that leaves out a term: the values are wrong.
        missed: Broken properties that are called proved.
        wrong: Properties that hold and are called refuted.
    """

    real: int = 0
    refuted: int = 0
    harmless: int = 0
    missed: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])


def planted(name: str, each: int) -> Planted:
    """Plants faults in the kernels of an archetype, and has them proved."""
    result = Planted()
    for what, mutant in mutants(archetype(name), each):
        truth, proofs = faults(mutant), prove_module(mutant)
        refuted = {verdict.property.value for proof in proofs for verdict in proof.refuted}
        result.real += bool(truth)
        result.harmless += not truth
        result.refuted += bool(truth & refuted)
        if missed := truth - unproved(proofs):
            result.missed.append(f"{what}: {missed}")
        if wrong := refuted - truth:
            result.wrong.append(f"{what}: {wrong}")
    return result


@pytest.mark.parametrize("name", ARCHETYPES)
def test_every_planted_fault_is_found(name: str) -> None:
    result = planted(name, 1)
    assert result.missed == [] and result.wrong == []
    assert result.real >= 4


@pytest.mark.nightly
def test_every_one_of_many_planted_faults_is_found() -> None:
    results = [planted(name, 8) for name in ARCHETYPES]
    assert [missed for result in results for missed in result.missed] == []
    assert [wrong for result in results for wrong in result.wrong] == []
    assert sum(result.real for result in results) >= 200
    assert sum(result.refuted for result in results) >= 150


def open_properties(proofs: Iterable[Proved], status: Status) -> list[str]:
    """Returns what has a status, with the reasons."""
    return [
        f"{proof.kernel}: {verdict.property.value}: {verdict.reason}"
        for proof in proofs
        for verdict in proof.open
        if verdict.status is status
    ]


@pytest.mark.parametrize("target", (*TARGETS, SOFTWARE), ids=lambda target: target.name)
def test_a_sample_of_the_op_table_is_not_refuted(target: Target) -> None:
    proofs = [
        proof for case in fitting(covering()[::EVERY], target) for proof in prove_module(kernels_of(case, target))
    ]
    assert len(proofs) > 10
    assert open_properties(proofs, Status.REFUTED) == []
    for verdict in (verdict for proof in proofs for verdict in proof.open):
        assert verdict.property in (Property.BOUNDS, Property.RESULTS) and "data" in verdict.reason


@pytest.mark.nightly
@pytest.mark.parametrize("target", (*TARGETS, SOFTWARE), ids=lambda target: target.name)
def test_no_kernel_of_the_op_table_is_refuted(target: Target) -> None:
    for case in fitting(CASES, target):
        proofs = prove_module(kernels_of(case, target))
        assert open_properties(proofs, Status.REFUTED) == [], case.id


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", NAMES)
def test_no_kernel_of_a_workload_is_refuted(name: str, target: Target) -> None:
    assert open_properties(prove_module(kernels_of_workload(name, target)), Status.REFUTED) == []
