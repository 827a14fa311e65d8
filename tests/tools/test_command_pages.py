"""Each command has a manual page, with the synopsis and options of its parser; `test_docs` runs examples."""

from __future__ import annotations

import re
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Mapping
from pathlib import Path

import pytest
from layers import ROOT

from tensorgrad.tools.tg import COMMANDS, command_line
from tensorgrad.tools.tg_opt import TgOpt

REFERENCE = ROOT / "docs" / "reference"

PAGES = {**{f"tg {name}": REFERENCE / "tg" / f"{name}.md" for name in COMMANDS}, "tg-opt": REFERENCE / "tg-opt.md"}
"""The page of each command; a command without one fails the tests."""

SECTIONS = ("Name", "Synopsis", "Description", "Options", "Exit status", "Files and environment", "Examples")


def parser_of(command: str) -> ArgumentParser:
    """Returns the parser of a command."""
    if command == "tg-opt":
        return TgOpt([]).parser
    subcommands = next(action.choices for action in command_line()._actions if isinstance(action.choices, Mapping))
    return subcommands[command.removeprefix("tg ")]


def written(action: Action) -> set[str]:
    """Returns how an argument is written: its options, or its name in the usage."""
    return set(action.option_strings) or {str(action.metavar or action.dest)}


def sections(page: Path) -> dict[str, str]:
    """Returns the text of each section of a page."""
    parts = re.split(r"^## (.*)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_page_is_of_a_command() -> None:
    assert {path.stem for path in (REFERENCE / "tg").glob("*.md")} == {*COMMANDS, "index"}


def test_the_first_page_lists_them() -> None:
    text = (REFERENCE / "tg" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`tg (\w+)`\]\((\w+)\.md\) \| (.*) \|$", text, re.MULTILINE)
    assert rows == [(name, name, COMMANDS[name][0]) for name in sorted(COMMANDS)]


@pytest.mark.parametrize("command", PAGES)
def test_it_has_the_sections_of_a_manual(command: str) -> None:
    texts = sections(PAGES[command])
    assert [name for name in texts if name in SECTIONS] == list(SECTIONS)
    assert all(texts[name].strip() for name in SECTIONS)
    line = COMMANDS[command.removeprefix("tg ")][0] if command != "tg-opt" else "run passes on IR"
    assert texts["Name"].strip() == f"`{command}`: {line}"


@pytest.mark.parametrize("command", PAGES)
def test_its_synopsis_is_the_usage(command: str) -> None:
    synopsis = re.fullmatch(r"```text\n(.*)```", sections(PAGES[command])["Synopsis"].strip(), re.DOTALL)
    assert synopsis is not None
    assert f"usage: {' '.join(synopsis[1].split())}" == " ".join(parser_of(command).format_usage().split())


@pytest.mark.parametrize("command", PAGES)
def test_its_options_are_those_of_the_parser(command: str) -> None:
    """In both directions, except for `--help`."""
    actions = [action for action in parser_of(command)._actions if action.help != SUPPRESS and action.dest != "help"]
    rows = re.findall(r"^\| (`.*?) \|", sections(PAGES[command])["Options"], re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(.+?)`", row)]
    assert len(set(listed)) == len(listed)
    assert set(listed) == set().union(*map(written, actions))


def default_of(action: Action) -> str:
    """Returns a default as a table shows it, or an empty string."""
    value = action.default
    return f"{value:g}" if isinstance(value, float) else str(value) if value not in (None, False, [], SUPPRESS) else ""


@pytest.mark.parametrize("command", sorted(PAGES.keys() - {"tg-opt"}))
def test_its_defaults_are_those_of_the_parser(command: str) -> None:
    rows = re.findall(r"^\| `(.+?)` \| (\S*) ?\| ", sections(PAGES[command])["Options"], re.MULTILINE)
    defaults = {name: default_of(action) for action in parser_of(command)._actions for name in written(action)}
    assert {name: default.strip("`") for name, default in rows if default} == {
        name: default for name, default in defaults.items() if default
    }


@pytest.mark.parametrize("command", PAGES)
def test_it_has_examples_that_run(command: str) -> None:
    shell = re.findall(r"^```sh\n(.*?)^```", sections(PAGES[command])["Examples"], re.MULTILINE | re.DOTALL)
    assert "<!-- no-run -->" not in PAGES[command].read_text(encoding="utf-8")
    assert any(line.startswith(f"{command} ") or line == command for block in shell for line in block.splitlines())
