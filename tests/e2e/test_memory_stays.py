"""Memory doesn't grow with the number of steps, of compilations, or of shapes of one function."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

SCRIPT = """
import gc
import json
import sys

import numpy as np
import tensorgrad as tg

device, what, count = sys.argv[1], sys.argv[2], int(sys.argv[3])


def loss(model, x):
    return tg.mean(tg.tanh(model(x)) ** 2)


def build():
    adam = tg.optim.adam(1e-2)
    return tg.compile(tg.nn.Linear(8, 8), loss=loss, optimizer=adam, inputs={"x": (16, 8)}, device=device)


def measured():
    gc.collect()
    found = {"resident": 4096 * int(open("/proc/self/statm").read().split()[1])}
    if device == "wgpu":
        from wgpu import diagnostics

        found |= {kind: one["count"] for kind, one in diagnostics.get_dict()["object_counts"].items()}
    return found


x = np.ones((16, 8), np.float32)
training = build()
function = tg.jit(lambda a: tg.sum(tg.exp(a) * 2.0, axis=1), device=device)
actions = {
    "steps": lambda number: training.step(x=x),
    "compilations": lambda number: build().step(x=x),
    "shapes": lambda number: function(np.ones((3, 200 + number % 97), np.float32)),
}
found = []
for number in range(count):
    actions[what](number)
    if number in (count // 2, count - 1):
        found.append(measured())
print(json.dumps(found))
"""

DEVICES = ("numpy", "cpu", "wgpu")


def grown(device: str, what: str, count: int) -> dict[str, int]:
    """Returns the growth from half time to the end: bytes of the process, objects of the driver."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, device, what, str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    half, end = json.loads(done.stdout)
    return {name: end[name] - half[name] for name in end}


def check(growth: dict[str, Any], most: int) -> None:
    assert growth.pop("resident") <= most
    assert not any(growth.values()), growth


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("what", "count"), [("steps", 2000), ("compilations", 16), ("shapes", 120)])
def test_memory_stays(device: str, what: str, count: int) -> None:
    """Allocators keep some freed memory; a leak per step or compilation would be more than that."""
    check(grown(device, what, count), 12 << 20)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("what", "count"), [("steps", 20000), ("compilations", 200), ("shapes", 400)])
def test_memory_stays_in_long_runs(device: str, what: str, count: int) -> None:
    check(grown(device, what, count), 4 << 20)
