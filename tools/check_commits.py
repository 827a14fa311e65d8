"""Checks the messages of commits: an imperative subject of at most 72 characters, a blank line, a body that says why.

Usage: check_commits.py [RANGE]

By default the range is the commits of HEAD that `origin/main` lacks, without those before this check was added; HEAD
if there is no such branch, or no such commit.
"""

from __future__ import annotations

import re
import subprocess
import sys

SUBJECT_LIMIT = 72
MERGE = re.compile(r"Merge |Revert ")
IMPERATIVES_THAT_LOOK_OTHERWISE = {
    "address", "bring", "discuss", "embed", "exceed", "express", "feed", "focus", "need", "pass", "press", "process",
    "proceed", "seed", "shed", "speed", "string", "swing", "weed",
}  # fmt: skip
"""Verbs whose base form ends like a past tense, a gerund or a third person."""


def problems(message: str) -> list[str]:
    """Returns what is wrong with a commit's message.

    Args:
        message: The whole message.
    """
    subject, *rest = message.rstrip("\n").split("\n")
    if MERGE.match(subject):
        return []
    results: list[str] = []
    if len(subject) > SUBJECT_LIMIT:
        results.append(f"the subject has {len(subject)} characters, more than {SUBJECT_LIMIT}")
    if subject.endswith("."):
        results.append("the subject ends with a period")
    first = re.match(r"[A-Za-z]+", subject)
    if first is None or not first[0][0].isupper():
        results.append("the subject does not start with a capital letter")
    elif _is_no_imperative(first[0].lower()):
        results.append(f"the subject is not in the imperative: it starts with {first[0]!r}")
    if rest and rest[0]:
        results.append("no blank line follows the subject")
    if not any(line.strip() and not line.startswith("Co-authored-by:") for line in rest):
        results.append("there is no body; say why the change is made")
    return results


def _is_no_imperative(word: str) -> bool:
    if word in IMPERATIVES_THAT_LOOK_OTHERWISE:
        return False
    return word.endswith(("ed", "ing")) or (word.endswith("s") and not word.endswith(("ss", "us")))


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _default_range() -> list[str]:
    """Returns the commits beyond `origin/main` since this check was added; only HEAD if there are none."""
    added = (_git("log", "--diff-filter=A", "--format=%H", "--", "tools/check_commits.py") or "").split()
    beyond = ["origin/main..HEAD", *(f"^{commit}" for commit in added[-1:])]
    return beyond if added and _git("rev-list", *beyond) else ["-1"]


def main(arguments: list[str]) -> int:
    """Prints the problems of each commit of a range; returns the exit status."""
    text = _git("log", "--no-merges", "--format=%h%x00%B%x01", *(arguments[:1] or _default_range()))
    if text is None:
        print("no history to check: this is not a git repository, or the range is unknown")
        return 1 if arguments else 0
    status = 0
    for entry in filter(None, (part.strip("\n") for part in text.split("\x01"))):
        commit, _, message = entry.partition("\x00")
        for problem in problems(message):
            print(f"{commit} {message.partition(chr(10))[0]}: {problem}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
