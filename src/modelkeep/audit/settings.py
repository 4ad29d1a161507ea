"""Settings: how much an audit looks at, and which checks run with them on a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Self, cast

from modelkeep.audit.plan import Check
from modelkeep.audit.sources import Sources
from modelkeep.audit.texts import for_texts
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.method import check_settings, options_of, setting
from modelkeep.core.model import Model
from modelkeep.core.registry import declarations, find

# The order in which a person reads them; those of other packages follow.
ORDER = (
    "accuracy",
    "leak",
    "calibration",
    "robustness",
    "corruptions",
    "certification",
    "influence",
    "shortcuts",
    "backdoor",
    "amplification",
    "membership",
    "inversion",
    "weight-leakage",
    "extraction",
    "completion",
    "encryption",
    "hygiene",
)


@dataclass(frozen=True)
class Settings:
    """How much to look at. Each check takes the settings that it has.

    Radii are shares of the range of an input (of its spread, where it has no range): 0.03 is about 8 of 255 grey
    levels.
    """

    examples: int = setting("Examples to attack and explain, drawn by the seed.", default=256, at_least=1)
    radii: tuple[float, ...] = setting("Sizes of the changes, rising.", default=(0.01, 0.03, 0.1))
    steps: int = setting("Steps of the attack.", default=40, at_least=1)
    slice: str | None = setting("The inner place to explain; else the last before the logits.", default=None)
    attack: str | None = setting(
        "The attack, by its name in the registry; else PGD, and the standard ensemble as the budget allows.",
        default=None,
    )
    cut: str | None = setting("Where a governed model would be cut, for the check of completion.", default=None)
    checks: tuple[str, ...] | None = setting("Which checks, by their names in the registry; else all.", default=None)
    minutes: float = setting("Minutes that all checks together may take by their estimates.", default=10.0, above=0)

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.radii or list(self.radii) != sorted(set(self.radii)) or not self.radii[0] > 0:
            raise bad_parameter("Settings", "radii", "rising numbers above 0", self.radii)

    @classmethod
    def read(cls, told: Mapping[str, Any], *, checks: tuple[str, ...]) -> Self:
        """The settings that a stored audit tells, for these checks."""
        known = {each.name for each in fields(cls)}
        kept: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in told.items() if name in known
        }
        return cls(**(kept | {"checks": checks}))

    def list_checks(self) -> dict[str, Check]:
        """The checks by their names, in the order in which a person reads them; an unknown name is refused."""
        known = declarations("check")
        every = (*(name for name in ORDER if name in known), *(name for name in known if name not in ORDER))
        kinds = {name: find("check", name).load() for name in (every if self.checks is None else self.checks)}
        return {name: kind(**self._for(kind)) for name, kind in kinds.items()}

    def prepare_checks(self, model: Model, *, train: Data | None, sources: Sources) -> dict[str, Check]:
        """The checks as they run on this model, with the training data and the model's file where they want them."""
        checks = _give(self.list_checks(), {"train": train, "file": sources.model_file})
        texts = model.nest is not None and model.nest.tokens is not None
        return {name: for_texts(name, check) for name, check in checks.items()} if texts else checks

    def _for(self, kind: type) -> dict[str, Any]:
        own = {each.name for each in fields(self)}
        return {option.name: getattr(self, option.name) for option in options_of(kind) if option.name in own}


def _give(checks: Mapping[str, Check], given: Mapping[str, object]) -> dict[str, Check]:
    """The checks, of which those with a setting of that name have what is given."""

    def fill(check: Check) -> Check:
        names = {each.name for each in fields(check)} if is_dataclass(check) else set()
        wanted = {name: value for name, value in given.items() if name in names and value is not None}
        return cast(Check, replace(cast(Any, check), **wanted)) if wanted else check

    return {name: fill(check) for name, check in checks.items()}
