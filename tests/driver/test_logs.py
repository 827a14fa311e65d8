"""`TG_LOG`: logs of the compiler's decisions."""

from __future__ import annotations

import itertools
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.logs import TOPICS, log_to_stderr


def loss(model: Any, x: tg.Tensor) -> Any:
    hidden = tg.tanh(model(x))  # the hidden layer
    return tg.mean(hidden * tg.softmax(hidden, axis=1))


def line(text: str) -> str:
    """Returns the location of a line of this file, as in labels."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"test_logs.py:{1 + next(number for number, written in enumerate(lines) if text in written)}"


def logged(topic: str, caplog: pytest.LogCaptureFixture, device: tg.DeviceName = "wgpu") -> list[str]:
    """Returns the log of compiling a small training."""
    with caplog.at_level(logging.DEBUG, logger=f"tensorgrad.{topic}"):
        tg.compile(tg.nn.Linear(8, 8), loss=loss, optimizer=tg.optim.adam(0.1), inputs={"x": (4, 8)}, device=device)
    return [record.getMessage() for record in caplog.records if record.name == f"tensorgrad.{topic}"]


@pytest.fixture(autouse=True)
def no_programs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORGRAD_CACHE_PROGRAMS", "0")


def test_each_pass_says_what_it_made_of_the_ops(caplog: pytest.LogCaptureFixture) -> None:
    messages = logged("passes", caplog)
    form = re.compile(r"([a-z0-9-]+)(\{.*\})?: (\d+) ops became (\d+) in [\d.]+ ms")
    counts = [form.fullmatch(message) for message in messages]
    assert all(counts)
    names = [match[1] for match in counts if match]
    assert names[:3] == ["simplify", "outline-attention", "grad"] and "plan-memory" in names
    steps = [(int(match[3]), int(match[4])) for match in counts if match]
    assert all(remaining == entered for (_, remaining), (entered, _) in itertools.pairwise(steps))


def test_fusion_says_what_it_joined_and_why_not_more(caplog: pytest.LogCaptureFixture) -> None:
    messages = logged("fusion", caplog)
    hidden = re.escape(line("# the hidden layer"))
    joined = [
        message for message in messages if re.match(r"(inline|recompute|epilogue|prologue|row|siblings): ", message)
    ]
    update = r"epilogue: .* \(pointwise of sqrt, .* over 8 x 8\) into .* \(contraction of .* over 8 x 8\)"
    activation = (
        rf"recompute: .*{hidden} \(pointwise of addf, tanh over 4 x 8\) into .* \(reduction of maximumf over 4\)"
    )
    for rule in (update, activation):
        assert any(re.fullmatch(rule, message) for message in joined)
    apart = [message for message in messages if message not in joined]
    assert apart and all(
        re.fullmatch(
            r".* \(.* over .*\) stays apart from .* \(.* over .*\): not computed in it: .+; not run in one kernel: .+",
            message,
        )
        for message in apart
    )


def test_schedules_memory_and_caches_are_explained(caplog: pytest.LogCaptureFixture) -> None:
    schedules = logged("schedule", caplog)
    assert any(
        "schedule<contraction" in message and message.endswith(", by the target's cost model") for message in schedules
    )
    training = logged("memory", caplog)
    assert any(re.fullmatch(r"loss: parameters: \d+ bytes for 2 buffers", message) for message in training)
    assert any(
        re.fullmatch(r"loss: \d+ bytes in all; workspace \d+, of at least \d+ in this order", message)
        for message in training
    )
    native = logged("cache", caplog, "cpu")
    assert any(re.fullmatch(r"\d+ of \d+ kernels were compiled before, found in .*", message) for message in native)


@pytest.mark.nightly
def test_the_variable_chooses_topics() -> None:
    program = "import tensorgrad as tg, numpy as np; tg.jit(lambda x: tg.exp(x) + 1, device='cpu')(np.ones(3, 'f4'))"
    output = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TG_LOG": "passes, memory"},
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    topics = {text.partition(": ")[0] for text in output.splitlines()}
    assert topics == {"tensorgrad.passes", "tensorgrad.memory"}


def test_a_topic_there_is_none_of_is_refused() -> None:
    with pytest.raises(OptionError, match=f"TG_LOG: no topic fuse; the topics are {', '.join(TOPICS)}, and all"):
        log_to_stderr("passes,fuse")
    assert not any(logging.getLogger(f"tensorgrad.{topic}").handlers for topic in TOPICS)
