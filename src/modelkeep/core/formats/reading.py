"""Reading: a module, and what is known about it from which source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from modelkeep.core.answerers import make_black_box
from modelkeep.core.black_box import Answerer
from modelkeep.core.card import Card, Preprocessing, class_names, in_layout
from modelkeep.core.errors import InputError, Remedy
from modelkeep.core.formats.probe import count_logits
from modelkeep.core.nest import Nest

COUNTED = "counted on a probe"
"""Where a number of classes comes from that nobody said."""
_NEEDED = ("input_shape", "classes")


@dataclass(frozen=True)
class Reading:
    """A module, the fields of its `Card` that are known, and where each of them comes from.

    `drawn` names the parameters that a factory drew at random: they are not trained. `device` is what the description
    says.
    """

    source: str | Path
    module: nn.Module | Answerer
    known: dict[str, Any]
    origins: dict[str, str]
    drawn: tuple[str, ...] = ()
    device: str | None = None

    @classmethod
    def of(
        cls,
        source: str | Path,
        module: nn.Module | Answerer,
        layers: Mapping[str, Mapping[str, Any]],
        *,
        drawn: tuple[str, ...] = (),
        device: str | None = None,
    ) -> Self:
        """What several sources say; a later one goes before an earlier one."""
        known: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for origin, said in layers.items():
            known |= said
            origins |= dict.fromkeys(said, origin)
        return cls(source, module, known, origins, drawn, device)

    def with_more(self, origin: str, said: Mapping[str, Any]) -> Reading:
        """The same, and what else was said."""
        return replace(self, known=self.known | dict(said), origins=self.origins | dict.fromkeys(said, origin))

    def count_classes(self) -> Reading:
        """The same with as many classes as the module gives logits for a probe, where nothing says their number."""
        shape = self.known.get("input_shape")
        module = self.module
        if "classes" in self.known or shape is None or self.known.get("inputs") is not None:
            return self
        if not isinstance(module, nn.Module):
            return self
        taken = in_layout(shape, self.known.get("layout"))
        floating = (weight.dtype for weight in module.parameters() if weight.is_floating_point())
        remedy = "name the shape that it takes with input_shape."
        number = count_logits(module.eval(), taken, next(floating, torch.float32), self.source, remedy)
        return self.with_more(COUNTED, {"classes": number})

    @property
    def missing(self) -> tuple[str, ...]:
        """What must be known and is not."""
        given = {*self.known, "input_shape"} if self.known.get("inputs") is not None else self.known
        return tuple(name for name in _NEEDED if name not in given)

    def open(self) -> tuple[nn.Module, Card]:
        """The module, or what only answers as one, and its card."""
        card = self.card()
        return (make_black_box(self.module, card) if isinstance(self.module, Answerer) else self.module), card

    def card(self) -> Card:
        """The card, if everything is known and valid."""
        from pydantic import TypeAdapter, ValidationError

        known = dict(self.known)
        if (layout := known.pop("layout", None)) is not None:
            own = known.get("preprocessing", {})
            known["preprocessing"] = {**(asdict(own) if isinstance(own, Preprocessing) else own), "layout": layout}
        if self.missing:
            wanted = ", ".join(f"{name}=…" for name in self.missing)
            options = ", ".join(f"--{name.replace('_', '-')}" for name in self.missing)
            raise InputError(
                f"'{self.source}' does not say everything about the model.",
                remedy=Remedy(f"Add: Model.load(…, {wanted}).", f"Add: {options}."),
            )
        try:
            if known.get("inputs") is not None:  # what follows from it need not be said
                nest = TypeAdapter(Nest).validate_python(known["inputs"])
                known = {"bounds": None, **known, "input_shape": (nest.width,)}
            return TypeAdapter(Card).validate_python({**known, "classes": class_names(known["classes"])})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "card"
            raise InputError(f"What is known about '{self.source}' is not valid at {where}: {first['msg']}.") from error
