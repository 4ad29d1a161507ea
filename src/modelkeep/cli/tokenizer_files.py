"""The tokenizer's file of a text model: where it stands, how it is read, and where it is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelkeep.core.model_file import Description
    from modelkeep.core.tokenizer import Tokenizer


def find_tokenizer(model: str, said: Description) -> Path | None:
    """The tokenizer that was named, else the one beside the model's file or in its folder."""
    if said.tokenizer is not None:
        return said.tokenizer
    files: list[Path] = [Path(model)] if said.weights is None else [said.weights, Path(model)]
    for file in files:
        inside: tuple[Path, ...] = (file / "tokenizer.json",) if file.is_dir() else ()
        for place in (*inside, file.with_suffix(".tokenizer.json"), file.with_name("tokenizer.json")):
            if place.is_file():
                return place
    return None


def read_own_tokenizer(place: Path, own: dict[str, Any]) -> Tokenizer:
    """The tokenizer, for texts as long as the model says that it takes them."""
    from pydantic import TypeAdapter

    from modelkeep.core.nest import Nest
    from modelkeep.zoo.tokenizers import read_tokenizer

    nest = None if own.get("inputs") is None else TypeAdapter(Nest).validate_python(own["inputs"])
    ids = None if nest is None else nest.tokens
    return read_tokenizer(place, length=None if ids is None else ids.shape[0])


def tokenizer_of_width(said: Description, input_shape: tuple[int, ...]) -> Tokenizer | None:
    """The tokenizer that was named, for a model of which only the shape of its input is known: ids and their mask."""
    from modelkeep.core.errors import InputError
    from modelkeep.zoo.tokenizers import read_tokenizer

    if said.tokenizer is None:
        return None
    if len(input_shape) != 1 or input_shape[0] % 2:
        raise InputError(
            f"A text is a row of token ids and as many numbers of their mask. This model takes {input_shape}, and "
            "--tokenizer was given."
        )
    return read_tokenizer(said.tokenizer, length=input_shape[0] // 2)


def write_tokenizer(text: str, model: Path) -> Path:
    """Keep a tokenizer beside a model's file, as MODEL.tokenizer.json, where it is found again."""
    from modelkeep.core.files import replace_file

    place = model.with_suffix(".tokenizer.json")
    with replace_file(place) as file:
        file.write_text(text, encoding="utf-8")
    return place
