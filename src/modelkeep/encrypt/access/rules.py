"""Rules on attributes: `role == clinician and ward in {a, b}`. They are parsed into values; nothing is ever evaluated.

There is no "not": with it, an attribute that is missing could open a door. So more attributes never permit less, and a
holder without attributes is permitted nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from modelkeep.core.errors import InputError

Attributes = Mapping[str, frozenset[str]]
"""The values that a holder has of each attribute."""

_TOKEN = re.compile(r"\s*(?:(?P<word>[A-Za-z0-9_.-]+)|(?P<sign>==|[(){},]))")
_KEYWORDS = ("and", "or", "in", "not")
_DEEPEST = 50  # levels of parentheses


@dataclass(frozen=True)
class OneOf:
    """The holder has one of these values of the attribute."""

    attribute: str
    values: frozenset[str]

    def holds(self, attributes: Attributes) -> bool:
        """Whether the rule permits a holder with these attributes."""
        return not self.values.isdisjoint(attributes.get(self.attribute, frozenset()))

    def mentions(self) -> dict[str, frozenset[str]]:
        """Every attribute with the values that the rule names."""
        return {self.attribute: self.values}


@dataclass(frozen=True)
class AllOf:
    """Every part permits."""

    parts: tuple[Rule, ...]

    def holds(self, attributes: Attributes) -> bool:
        """Whether the rule permits a holder with these attributes."""
        return bool(self.parts) and all(part.holds(attributes) for part in self.parts)

    def mentions(self) -> dict[str, frozenset[str]]:
        """Every attribute with the values that the rule names."""
        return _joined(self.parts)


@dataclass(frozen=True)
class AnyOf:
    """At least one part permits."""

    parts: tuple[Rule, ...]

    def holds(self, attributes: Attributes) -> bool:
        """Whether the rule permits a holder with these attributes."""
        return any(part.holds(attributes) for part in self.parts)

    def mentions(self) -> dict[str, frozenset[str]]:
        """Every attribute with the values that the rule names."""
        return _joined(self.parts)


Rule = OneOf | AllOf | AnyOf


def parse_rule(text: str) -> Rule:
    """The rule that a text states: `name == value`, `name in {value, …}`, `and`, `or`, parentheses.

    >>> rule = parse_rule("role == clinician and ward in {a, b}")
    >>> rule.holds({"role": frozenset({"clinician"}), "ward": frozenset({"b", "c"})})
    True
    >>> rule.holds({"role": frozenset({"clinician"})})
    False
    """
    reader = _Reader(text)
    rule = reader.any_of(0)
    if reader.place < len(reader.tokens):
        raise reader.wrong("the end, 'and' or 'or'")
    return rule


def _joined(parts: tuple[Rule, ...]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for part in parts:
        for name, values in part.mentions().items():
            found[name] = found.get(name, frozenset()) | values
    return found


class _Reader:
    """Recursive descent: `or` binds weaker than `and`."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.tokens: list[str] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise InputError(
                    f"A rule may hold names, '==', 'in', 'and', 'or', braces and parentheses. Got "
                    f"{stripped[at:].strip()[:10]!r} in {text!r}."
                )
            self.tokens.append(match["word"] or match["sign"])
            at = match.end()

    def any_of(self, depth: int) -> Rule:
        parts = [self.all_of(depth)]
        while self.take("or"):
            parts.append(self.all_of(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def all_of(self, depth: int) -> Rule:
        parts = [self.one(depth)]
        while self.take("and"):
            parts.append(self.one(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def one(self, depth: int) -> Rule:
        if self.take("("):
            if depth >= _DEEPEST:
                raise InputError(f"A rule may have {_DEEPEST} levels of parentheses. This one has more.")
            inner = self.any_of(depth + 1)
            self.expect(")")
            return inner
        attribute = self.name("the name of an attribute")
        if self.take("=="):
            return OneOf(attribute, frozenset({self.name("a value")}))
        self.expect("in", "'==' or 'in'")
        self.expect("{")
        values = {self.name("a value")}
        while self.take(","):
            values.add(self.name("a value"))
        self.expect("}")
        return OneOf(attribute, frozenset(values))

    def take(self, token: str) -> bool:
        if self.place < len(self.tokens) and self.tokens[self.place] == token:
            self.place += 1
            return True
        return False

    def expect(self, token: str, told: str = "") -> None:
        if not self.take(token):
            raise self.wrong(told or repr(token))

    def name(self, told: str) -> str:
        if self.place >= len(self.tokens):
            raise self.wrong(told)
        token = self.tokens[self.place]
        if token in _KEYWORDS or not re.fullmatch(r"[A-Za-z0-9_.-]+", token):
            raise self.wrong(told)
        self.place += 1
        return token

    def wrong(self, expected: str) -> InputError:
        got = repr(self.tokens[self.place]) if self.place < len(self.tokens) else "the end"
        return InputError(f"The rule {self.text!r} needs {expected} where it has {got}.")
