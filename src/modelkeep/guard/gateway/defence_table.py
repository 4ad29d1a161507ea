"""The table [defence] of the gateway's settings. Its keys are the settings of the guard that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from modelkeep.core.method import options_of, text_type
from modelkeep.core.registry import find
from modelkeep.core.setting_files import file_setting, read_setting
from modelkeep.guard.defence import Defence

SEEDED = "seeded"
_SEED_DATA = "The owner's own data, whose predictions start the lists: a data set or a file."


class Section(BaseModel):
    """A table of the file: frozen, and with no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DefenceTable(Section):
    """What the table of every defence has: `noise` bounds how far two computations of a prediction may lie apart."""

    guard: ClassVar[type[Defence]]

    name: str
    noise: Annotated[float, Field(ge=0, lt=0.1)] = 1e-5

    def build(self, folder: Path) -> Defence:
        """The defence. Relative paths of models and secrets start in `folder`."""
        given: dict[str, Any] = {}
        for option in options_of(self.guard):
            file = file_setting(option)
            value = getattr(self, file or option.name, None)
            if value is not None:
                given[option.name] = value if file is None else read_setting(option, folder / value)
        return self.guard(**given)


def defence_table(name: str) -> type[DefenceTable]:
    """The table of one declared guard. A setting that only Python can give has no key.

    >>> list(defence_table("modelguard-s").model_fields)
    ['name', 'noise', 'epsilon', 'secret_file', 'seed_data']
    """
    declaration = find("guard", name)
    guard = declaration.load()
    keys: dict[str, Any] = {"name": (str, declaration.name)}
    for option in options_of(guard):
        if option.name == SEEDED:  # an array, which the gateway makes of the owner's data
            keys["seed_data"] = (str | None, Field(default=None, description=_SEED_DATA))
            continue
        file, kind = file_setting(option), text_type(option)
        if file is None and kind is None:
            continue
        limits = option.setting
        told = Field(
            default=... if option.required else option.default,
            description=limits.doc if file is None else f"{limits.doc} Give the path of its file.",
            ge=limits.at_least,
            gt=limits.above,
            le=limits.at_most,
            lt=limits.below,
        )
        value: Any = Path if file is not None else kind
        keys[file or option.name] = (value if option.required else value | None, told)
    table = create_model(f"{guard.__name__}Table", __base__=DefenceTable, **keys)
    table.guard = guard
    return table
