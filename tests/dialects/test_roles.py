"""Roles of arguments, results, buffers and tensors: their texts, and that code names them by the enum."""

from __future__ import annotations

import ast

import pytest
from layers import MODULES
from xdsl.dialects.builtin import StringAttr
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.signature import ROLE, Role, Slot, read_slot
from tensorgrad.runtime.plan import ProgramRole

FOLDERS = ("dialects", "passes", "interpreters", "runtime")


@pytest.mark.parametrize("role", Role)
def test_a_role_is_its_text_in_the_ir(role: Role) -> None:
    attributes = Slot("x", role).attributes()
    assert attributes[ROLE] == StringAttr(role.name.lower())
    assert read_slot(attributes).role is role
    assert f"{role} {role!r}" == f"{role.value} {role.value!r}"


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(VerifyException, match="role 'gift' is not one of parameter, state, input"):
        read_slot({ROLE: StringAttr("gift")})


def test_programs_use_the_words_of_the_ir() -> None:
    assert {*ProgramRole} < {*map(str, Role)}


def _is_role(node: ast.expr) -> bool:
    return "role" in (getattr(node, "attr", ""), getattr(node, "id", ""))


def _strings(node: ast.expr) -> list[str]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def test_roles_are_compared_with_members() -> None:
    """A misspelled member fails; a misspelled text is a role that nothing has."""
    wrong = [
        f"{path}:{node.lineno}"
        for folder, path in MODULES.values()
        if folder in FOLDERS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare) and _is_role(node.left) and any(map(_strings, node.comparators))
    ]
    assert not wrong
