"""`TG_LOG`: logs the compiler's decisions and their reasons to stderr, by topic.

Each topic is a standard library logger called `tensorgrad.<topic>`, so that programs can enable and redirect it with
`logging` alone.
"""

from __future__ import annotations

import logging

from tensorgrad.errors import OptionError, printable

VARIABLE = "TG_LOG"
"""The environment variable: a comma-separated list of topics, or `all`."""

TOPICS = ("passes", "fusion", "schedule", "memory", "cache")


class _Formatter(logging.Formatter):
    """Escapes what a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), lines=True)


def log_to_stderr(topics: str) -> None:
    """Logs topics to stderr, and no longer to their parent loggers.

    Args:
        topics: A comma-separated list of topics, or `all`.

    Raises:
        OptionError: There is no such topic.
    """
    names = set(filter(None, topics.replace(" ", "").split(",")))
    unknown = sorted(names - {"all", *TOPICS})
    if unknown:
        raise OptionError(f"{VARIABLE}: no topic {', '.join(unknown)}; the topics are {', '.join(TOPICS)}, and all")
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(name)s: %(message)s"))
    for topic in TOPICS if "all" in names else sorted(names):
        logger = logging.getLogger(f"tensorgrad.{topic}")
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
