"""Access policy: which attributes exist, who has which, and which rule permits which action. All else is denied."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator

from modelkeep.core.errors import InputError
from modelkeep.encrypt.access.rules import Attributes, Rule, parse_rule
from modelkeep.guard.gateway.principals import OPERATOR

Values = Annotated[tuple[str, ...], AfterValidator(lambda values: tuple(dict.fromkeys(values)))]


class AccessPolicy(BaseModel):
    """The declared schema of a policy; in TOML:

        [attributes]
        role = ["clinician", "auditor"]
        ward = ["a", "b", "c"]

        [principals.anna]
        role = ["clinician"]
        ward = ["a"]

        [rules]
        ask = "role == clinician and ward in {a, b}"

    A principal is one of guard's, by its name: its keys are in guard's store and nowhere else. An attribute or value
    that was not declared is an error when the policy is read, and not a door that stays shut or open in silence.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    attributes: dict[str, Values]
    principals: dict[str, dict[str, Values]]
    rules: dict[str, str]

    @model_validator(mode="before")
    @classmethod
    def _lists_to_tuples(cls, given: object) -> object:
        """TOML and JSON have lists; a strict tuple takes none."""

        def fix(value: object) -> object:
            if isinstance(value, list):
                return tuple(value)
            return {name: fix(each) for name, each in value.items()} if isinstance(value, dict) else value

        return fix(given)

    @model_validator(mode="after")
    def _declared_only(self) -> AccessPolicy:
        if OPERATOR in self.principals:
            raise ValueError(f"'{OPERATOR}' opens guard's dashboard and no model: name another principal")
        for who, has in self.principals.items():
            self._check(f"The principal '{who}' has", {name: frozenset(values) for name, values in has.items()})
        for action, text in self.rules.items():
            self._check(f"The rule of '{action}' names", parse_rule(text).mentions())
        return self

    def _check(self, who: str, named: Attributes) -> None:
        for name, values in named.items():
            if name not in self.attributes:
                raise ValueError(f"{who} the attribute '{name}', which is not declared")
            other = sorted(values - set(self.attributes[name]))
            if other:
                raise ValueError(f"{who} '{other[0]}' for '{name}', which is not declared")

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> AccessPolicy:
        """The policy that JSON or TOML values state."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(f"This is not an access policy: {f'{where}: ' if where else ''}{first['msg']}.") from None

    @classmethod
    def read(cls, path: str | Path) -> AccessPolicy:
        """The policy in a TOML file."""
        try:
            return cls.from_values(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"The access policy {path} cannot be read: {error}.") from error

    def permits(self, principal: str, action: str) -> bool:
        """Whether the holder of this name may do this. Unknown holders, unknown actions and empty rules are denied."""
        has, text = self.principals.get(principal), self.rules.get(action)
        if has is None or text is None:
            return False
        rule: Rule = parse_rule(text)
        return rule.holds(MappingProxyType({name: frozenset(values) for name, values in has.items()}))
