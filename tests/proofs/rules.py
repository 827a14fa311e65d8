"""The rules of the rewriting passes: the theorem that proves each, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import test_simplify_rules as simplification
from xdsl.dialects import arith

from tensorgrad.passes.analyses import guards
from tensorgrad.passes.buffers.lower_tg_to_buf import lower_tg_to_buf
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import VIEWS

assert lower_tg_to_buf, "registers the views"
STRUCTURE = "a statement about a graph, not about numbers; random programs are run after every pass"


@dataclass(frozen=True)
class Room:
    """The rules of one module.

    Attributes:
        name: What it is called.
        module: Its path.
        tests: The file of its theorems.
        proved: The theorem of each rule, a test's name.
        unproved: The reason why a rule has none.
    """

    name: str
    module: str
    tests: str
    proved: Mapping[str, str]
    unproved: Mapping[str, str] = field(default_factory=dict)


def _simplify() -> Room:
    proved = {f"`{kind.name}({pattern})`": "test_elementwise_rules" for kind, pattern in simplification.PROVED}
    proved |= {
        "`tg.reshape` to the same shape": "test_moves_to_the_same_shape",
        "`tg.transpose` by the identity": "test_moves_to_the_same_shape",
        "`tg.slice` of the same extents": "test_moves_to_the_same_shape",
        "`tg.broadcast` to the same shape": "test_moves_to_the_same_shape",
        "`tg.concat` of one part": "test_moves_to_the_same_shape",
        "a reduction over no axes": "test_a_reduction_over_no_axes_rounds_to_the_same_half",
    }
    assumed = [(kind, pattern) for kind, pattern in simplification.rules() if kind in simplification.ASSUMED]
    unproved = {f"`{kind.name}({pattern})`": simplification.ASSUMED[kind] for kind, pattern in assumed}
    unproved |= {
        "constants are folded": "the op's own NumPy semantics is run, the one that results are compared with",
        "equal ops are merged, dead ones erased": STRUCTURE,
    }
    return Room("simplify", "dialects/tg", "test_simplify_rules.py", proved, unproved)


INDEX = {
    "`Linear.plus`, `Linear.times`": "test_sums_and_multiples",
    "`Linear.split`, `Linear.over`": "test_splits_and_quotients",
    "`Linear.bounds` of loops": "test_bounds",
    "`atom_bounds` of quotients and remainders": "test_bounds_of_quotients",
    "`Linear.expression`, `as_terms`": "test_expressions",
    "`_linear`: the operators": "test_operators",
    "`_linear`: loops over one index, constants": "test_loops_and_constants",
    "`_parts`: what is divided is not negative": "test_parts",
    "`_reduced`: common factors": "test_reduced",
    "`_floordiv`": "test_floordiv",
    "`_floordiv` of a quotient": "test_nested_floordiv",
    "`_mod`": "test_mod",
    "`_recombined`, `_quotient`": "test_recombination",
    "`strides`, `linear_index`, `delinearized`": "test_positions",
    "`composed`": "test_composed",
    "`partial`": "test_partial",
}


def _guards() -> Room:
    rows = {*guards.SIGNED, *guards.INTEGERS}
    proved = {f"`{op.name}`": "test_words" if op.name in WORD_OPS else "test_arithmetic" for op in rows}
    proved[f"`{arith.MuliOp.name}`"] = "test_product_is_in_its_range"
    proved = dict(sorted(proved.items()))
    proved |= {f"`arith.cmpi`, predicate {number}": "test_comparisons" for number in range(len(guards.PREDICATES))}
    proved |= {
        "what a comparison implies": "test_what_a_condition_implies",
        "`arith.select`": "test_select",
        "`and` and `or` of conditions": "test_logic",
        "wrapping around": "test_product_wraps_as_its_range",
        "conversion to an index": "test_conversion_to_an_index",
        "conversion from an index": "test_conversion_from_an_index",
        "constants": "test_constants",
        "a loop's counter": "test_counters",
        "index expressions": "test_index_expressions",
    }
    unproved = {
        "the ranges of thread and workgroup numbers, of a stage's loops": "they are the definition of a dispatch",
        "a decided `if` or `select` is replaced by its branch": STRUCTURE,
    }
    return Room("guards", "passes/analyses/guards.py", "test_guard_rules.py", proved, unproved)


WORD_OPS = frozenset(op.name for op in (arith.AndIOp, arith.ShLIOp, arith.ShRUIOp))


def rooms() -> list[Room]:
    """Returns all rules, by module."""
    index = Room(
        "index maps",
        "passes/analyses/affine.py",
        "test_index_rules.py",
        INDEX,
        {
            "`reshape_map`": "it is put together from the above, and proved as the map of `tg.reshape`",
            "that simplification ends": "each step divides by less or drops an operator; not stated as a theorem",
        },
    )
    views = Room(
        "views",
        "passes/buffers/lower_tg_to_buf/rules",
        "test_view_rules.py",
        {f"the map of `{kind.name}`": "test_the_map_of_a_view" for kind in VIEWS},
    )
    fusion = Room(
        "fuse",
        "passes/buffers/fuse",
        "test_fusion_rules.py",
        {
            "`inverse`, of up to three loops": "test_inverse",
            "`aligned_loops`, of up to two loops": "test_aligned_loops",
            "`divided_loops`, of blocks along one axis": "test_divided_loops",
        },
        {
            "`divided_loops`, of another shape": "products of extents; all pairs of shapes of 24 elements are tried",
        },
    )
    layout = Room(
        "memory plans",
        "passes/buffers/plan_memory/arenas.py",
        "test_layout_rules.py",
        {
            "`rounded_up`": "test_rounded_up",
            "`_lowest`, among up to two ranges": "test_lowest",
            "`by_lifetime`, of up to three ranges": "test_by_lifetime",
            "`side_by_side`, of up to three ranges": "test_side_by_side",
            "`least_bytes`, of up to two ranges": "test_least_bytes",
        },
        {"lifetimes of buffers, updates in place": "a statement about a graph; plans are proved one by one, see above"},
    )
    return [_simplify(), index, _guards(), views, fusion, layout]


def table() -> str:
    """Returns the page's table."""
    lines = ["| room | rule | shown by |", "|---|---|---|"]
    for room in rooms():
        for theorem in dict.fromkeys(room.proved.values()):
            names = ", ".join(rule for rule, other in room.proved.items() if other == theorem)
            lines.append(f"| {room.name} | {names} | `{theorem}` |")
        lines += [f"| {room.name} | {rule} | not proved: {reason} |" for rule, reason in room.unproved.items()]
    proved, unproved = (sum(len(rules) for rules in each) for each in zip(*counted(), strict=True))
    share = 100 * proved // (proved + unproved)
    return "\n".join([*lines, "", f"{proved} of {proved + unproved} rules are proved: {share}%."])


def counted() -> list[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Returns the rules that are proved and those that are not, of each room."""
    return [(room.proved, room.unproved) for room in rooms()]
