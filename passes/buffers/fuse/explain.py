"""Explains the decisions of fusion, under the log topic `fusion`."""

from __future__ import annotations

import logging

from tensorgrad.passes.analyses.stages import Parts
from tensorgrad.passes.buffers.decisions import Outline, Pairing, tell
from tensorgrad.passes.buffers.decisions import is_followed as is_topic_followed

_log = logging.getLogger("tensorgrad.fusion")


def is_followed() -> bool:
    """Returns whether decisions are logged or collected."""
    return is_topic_followed(_log)


def fused(rule: str, first: Parts, second: Parts) -> None:
    """Tells that two kernels are merged."""
    if is_followed():
        tell(_log, Pairing(rule, Outline.of(first), Outline.of(second)))


def stored(first: Parts, second: Parts, reason: str) -> None:
    """Tells why two kernels are not merged."""
    tell(_log, Pairing("", Outline.of(first), Outline.of(second), reason))
