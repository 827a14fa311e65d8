"""`TG_LOG`: what the compiler decides and why, by topic, on stderr.

Each topic is a logger of the standard library called `tensorgrad.<topic>`, so that a program can turn it on, and send
it elsewhere, by `logging` alone.
"""

from __future__ import annotations

import logging

from tensorgrad.errors import OptionError

VARIABLE = "TG_LOG"
"""The environment variable: topics between commas, or `all`."""

TOPICS = ("passes", "fusion", "schedule", "memory", "cache")


def log_to_stderr(wanted: str) -> None:
    """Logs topics to stderr, and no longer to the loggers above them.

    Args:
        wanted: Topics between commas, or `all`.

    Raises:
        OptionError: There is no such topic.
    """
    names = set(filter(None, wanted.replace(" ", "").split(",")))
    unknown = sorted(names - {"all", *TOPICS})
    if unknown:
        raise OptionError(f"{VARIABLE}: no topic {', '.join(unknown)}; there are {', '.join(TOPICS)}, and all")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    for topic in TOPICS if "all" in names else sorted(names):
        logger = logging.getLogger(f"tensorgrad.{topic}")
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
