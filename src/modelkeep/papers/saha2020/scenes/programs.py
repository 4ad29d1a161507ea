"""Programs: what a question means, as nested calls that `execute` runs on a scene."""

from __future__ import annotations

from typing import Any

from modelkeep.core.errors import InputError
from modelkeep.papers.saha2020.scenes.scene import Scene, Thing

Program = tuple[Any, ...]
"""A function's name, then its arguments: words or other programs."""


def execute(program: Program, scene: Scene) -> str:
    """The answer. A program that asks for "the" thing where there is none, or more than one, is an error.

    >>> red = Thing("small", "red", "metal", "cube")
    >>> execute(("count", ("filter", "red", ("scene",))), (red,))
    '1'
    """
    value = _run(program, scene)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _run(program: Program, scene: Scene) -> Any:
    name, *arguments = program
    given = [_run(a, scene) if isinstance(a, tuple) else a for a in arguments]
    match name, given:
        case "scene", []:
            return scene
        case "filter", [word, things]:
            return tuple(thing for thing in things if thing.is_a(word))
        case "unique", [things]:
            if len(things) != 1:
                raise InputError(f"'unique' needs exactly one thing. Got {len(things)} in {program}.")
            return things[0]
        case "relate", [relation, thing]:
            return tuple(other for other in scene if other is not thing and _holds(relation, other, thing))
        case "union", [one, other]:
            return tuple(thing for thing in scene if thing in one or thing in other)
        case "intersect", [one, other]:
            return tuple(thing for thing in scene if thing in one and thing in other)
        case "query", [attribute, thing]:
            return getattr(thing, attribute)
        case "same", [attribute, one, other]:
            return getattr(one, attribute) == getattr(other, attribute)
        case "count", [things]:
            return len(things)
        case "exist", [things]:
            return len(things) > 0
        case "equal", [one, other]:
            return one == other
        case "more", [one, other]:
            return one > other
        case "fewer", [one, other]:
            return one < other
    raise InputError(f"A program has no function '{name}' of {len(given)} arguments.")


def _holds(relation: str, thing: Thing, of: Thing) -> bool:
    return {"left": thing.x < of.x, "right": thing.x > of.x, "behind": thing.y < of.y, "front": thing.y > of.y}[
        relation
    ]
