"""The description of a model: what its file does not say, in a small `model.toml` or as options of a command."""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from modelkeep.core.card import Layout, from_layout
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.files import replace_file
from modelkeep.core.processor import read_processor

NAME = "model.toml"
Missing = Literal["refuse", "indicate", "fill", "drop"]


@dataclass(frozen=True, kw_only=True)
class Description:
    """What an owner says about a model and the tables that it takes. None: nothing is said.

    `input_shape` is what the module takes, in its own `layout`. `processor` names a Hugging Face processor config, from
    which come mean, deviation, shape and bounds that are not said here. `factory` may name one of ours or of Hugging
    Face: a file must not decide what other code runs.
    """

    factory: str | None = None
    arguments: dict[str, Any] | None = None
    weights: Path | None = None
    classes: tuple[str, ...] | int | None = None
    input_shape: tuple[int, ...] | None = None
    inputs: tuple[dict[str, Any], ...] | None = None
    layout: Layout | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    bounds: tuple[float, float] | Literal["none"] | None = None
    processor: Path | None = None
    tokenizer: Path | None = None
    device: str | None = None
    label: str | None = None
    positive: str | None = None
    text: str | None = None
    missing: Missing | None = None
    ignore: tuple[str, ...] | None = None

    def over(self, other: Description) -> Description:
        """This description, and what only `other` says."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        told = replace(other, **{name: value for name, value in said.items() if value is not None})
        if self.processor is not None:  # what it gives goes before what the other one says
            given = read_processor(self.processor)
            hidden = {"mean", "std"} if "preprocessing" in given else set()
            hidden |= {"input_shape", "bounds"} & set(given)
            told = replace(told, **{name: said[name] for name in hidden})
        return told

    @property
    def says_anything(self) -> bool:
        """Whether there is anything to write."""
        return any(getattr(self, each.name) is not None for each in fields(self))

    def card(self) -> dict[str, Any]:
        """What is said, as fields of `Card` in JSON."""
        card: dict[str, Any] = {} if self.processor is None else read_processor(self.processor)
        if (self.mean is None) != (self.std is None):
            raise InputError("The mean and the deviation (std) of an input belong together: give both, or neither.")
        if self.mean is not None and self.std is not None:
            card["preprocessing"] = {"mean": self.mean, "std": self.std}
        if self.bounds is not None:
            card["bounds"] = None if self.bounds == "none" else self.bounds
        if self.input_shape is not None:
            card["input_shape"] = from_layout(self.input_shape, self.layout)
        if self.inputs is not None:
            card["inputs"] = {"leaves": self.inputs}
        for name in ("classes", "layout", "arguments"):
            if getattr(self, name) is not None:
                card[name] = getattr(self, name)
        return card

    @classmethod
    def read(cls, path: Path) -> Self:
        """The description in a `.toml` file; paths in it start at its folder."""
        try:
            told = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ModelError(f"The description '{path}' cannot be read: {error.strerror}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ModelError(f"The description '{path}' is not TOML: {error}.") from error
        return cls.parse(told, path)

    @classmethod
    def parse(cls, told: dict[str, Any], path: Path) -> Self:
        """The description that a file's content gives. A key that it cannot have is refused."""
        from pydantic import TypeAdapter, ValidationError

        known = [each.name for each in fields(cls)]
        for key in told:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f" Did you mean '{near[0]}'?" if near else ""
                raise InputError(
                    f"'{path}' says '{key}', which no model has.{hint} What can be said: {', '.join(known)}."
                )
        if isinstance(told.get("classes"), str):
            told = {**told, "classes": read_names(path.parent / told["classes"])}
        try:
            said = TypeAdapter(cls).validate_python(told)
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(
                f"'{path}' is not valid at {first['loc'][0]}: {first['msg']}. Got {first['input']!r}."
            ) from error
        places = {name: getattr(said, name) for name in ("weights", "processor", "tokenizer")}
        return replace(said, **{name: path.parent / place for name, place in places.items() if place is not None})

    def write(self, path: Path) -> Path:
        """Write what is said, as TOML; paths as they are from the file's folder."""
        lines = ["# What ModelKeep knows about the model beside this file. Options of a command go before it."]
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Path):
                value = _relative(value, path.parent)
            if value is not None:
                lines.append(f"{each.name} = {_toml(value)}")
        try:
            with replace_file(path) as unfinished:
                unfinished.write_text("\n".join(lines) + "\n", encoding="utf-8")
        except OSError as error:
            raise ModelError(f"'{path}' cannot be written: {error.strerror}.") from error
        return path


def find_description(source: str | Path) -> Path | None:
    """The description beside a model's file, or in its folder: NAME.toml, else model.toml."""
    path = Path(source)
    if not path.exists():
        return None
    places = (path / NAME,) if path.is_dir() else (path.with_suffix(".toml"), path.with_name(NAME))
    return next((place for place in places if place != path and place.is_file()), None)


def read_names(path: Path) -> tuple[str, ...]:
    """The names in a text file with a line each."""
    try:
        return tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"The names of the classes cannot be read from '{path}': {error}.") from error


def _relative(path: Path, folder: Path) -> str:
    try:
        return str(path.resolve().relative_to(folder.resolve()))
    except ValueError:
        return str(path.resolve())


def _toml(value: Any) -> str:
    """A plain value as TOML; JSON's texts, numbers and lists are TOML's, too."""
    if value is None:
        raise InputError("A description in TOML cannot hold a null. Leave the argument out, or give it as --arguments.")
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml(each)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(each) for each in value)}]"
    return json.dumps(value, ensure_ascii=False)
