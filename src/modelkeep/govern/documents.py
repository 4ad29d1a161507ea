"""Documents: JSON files from other people, read strictly; what does not fit is refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from modelkeep.core.errors import GovernError
from modelkeep.core.files import replace_file
from modelkeep.core.signing import canonical

T = TypeVar("T")
_MOST_BYTES = 4 * 2**20
_ADAPTERS: dict[type, TypeAdapter[Any]] = {}  # to make one for an agreement takes a tenth of a second


def adapter(kind: type[T]) -> TypeAdapter[T]:
    """What reads and writes the dataclass `kind`."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def read_document(kind: type[T], path: Path, what: str) -> T:
    """The dataclass `kind` from the file: exact types, nothing missing, nothing more, no key twice."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise GovernError(f"'{path}' is {path.stat().st_size:,} bytes long; {what} has at most {_MOST_BYTES:,}.")
        text = path.read_bytes().decode()
        values = json.loads(text, object_pairs_hook=_without_doubles)
        found: T = adapter(kind).validate_json(canonical(values), strict=True, extra="forbid")
    except OSError as error:
        raise GovernError(f"'{path}' cannot be read: {error.strerror}. It should be {what}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        why = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise GovernError(f"'{path}' is not {what}{f', at {where}' * bool(where)}: {why}.") from error
    except RecursionError as error:
        raise GovernError(f"'{path}' is not {what}: it is nested too deeply.") from error
    except ValueError as error:  # not UTF-8, not JSON, a key twice, NaN
        raise GovernError(f"'{path}' is not {what}: {error}. Was it copied completely?") from error
    return found


def write_document(document: Any, path: Path) -> Path:
    """Write a dataclass as JSON that a person can read, whole or not at all."""
    values = adapter(type(document)).dump_python(document, mode="json")
    try:
        with replace_file(path) as unfinished:
            unfinished.write_text(json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    except OSError as error:
        raise GovernError(f"'{path}' cannot be written: {error.strerror}.") from error
    return path


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that stands twice: one reader would take the first value, another one the last."""
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError(f"a key stands twice among {', '.join(repr(key) for key, _ in pairs)}")
    return values
