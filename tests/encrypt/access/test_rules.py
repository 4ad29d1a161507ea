"""Rules against Python's own `and`, `or` and `in`, and texts that try to be more than a rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.encrypt.access.rules import AllOf, parse_rule

NAMES, VALUES = st.sampled_from("pqr"), st.sampled_from("abc")


def rules(depth: int) -> st.SearchStrategy[str]:
    """Texts of rules that are also Python, with `p` the set of values that the holder has of p."""
    leaf = st.one_of(
        st.builds("{} == {}".format, NAMES, VALUES),
        st.builds(lambda n, vs: f"{n} in {{{', '.join(vs)}}}", NAMES, st.lists(VALUES, min_size=1, max_size=3)),
    )
    if depth == 0:
        return leaf
    inner = rules(depth - 1)
    pair = st.builds(lambda a, op, b: f"{a} {op} {b}", inner, st.sampled_from(["and", "or"]), inner)
    return st.one_of(leaf, pair, st.builds("({})".format, pair))


class Has(set[str]):
    """Makes Python read a rule: `==` and `in` ask for a common value."""

    def __eq__(self, other: object) -> bool:
        return bool(self & (other if isinstance(other, set) else {other}))


@given(rules(3), st.dictionaries(NAMES, st.frozensets(VALUES)))
def test_a_rule_means_what_python_makes_of_it(text: str, has: dict[str, frozenset[str]]) -> None:
    words = {name: Has(has.get(name, frozenset())) for name in "pqr"} | {value: value for value in "abc"}
    python = text.replace(" in {", " == {")  # sets of alternatives, compared by Has
    assert parse_rule(text).holds(has) == bool(eval(python, {"__builtins__": {}}, words))


@given(rules(3), st.dictionaries(NAMES, st.frozensets(VALUES)), st.dictionaries(NAMES, st.frozensets(VALUES)))
def test_more_attributes_never_permit_less(
    text: str, has: dict[str, frozenset[str]], more: dict[str, frozenset[str]]
) -> None:
    both = {name: has.get(name, frozenset()) | more.get(name, frozenset()) for name in (*has, *more)}
    assert parse_rule(text).holds(both) or not parse_rule(text).holds(has)
    assert not parse_rule(text).holds({})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "role",
        "role ==",
        "role == a b",
        "== a",
        "role = a",
        "role != a",
        "not role == a",
        "role in {}",
        "role in {a,}",
        "role in a",
        "(role == a",
        "role == a)",
        "role == a and",
        "and == and",
        "role == 'a'",
        "__import__('os').system('true') == a",
        "role == a; ward == b",
        "role == a or True",
        "röle == a",
        "role == a\x00",
        "(" * 60 + "role == a" + ")" * 60,
    ],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_rule(text)


def test_no_parts_permit_nothing() -> None:
    assert not AllOf(()).holds({"role": frozenset({"a"})})
