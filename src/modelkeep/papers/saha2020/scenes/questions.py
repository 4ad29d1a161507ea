"""Questions: CLEVR's five families as words with a program, their answers balanced and never in doubt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from modelkeep.core.errors import unknown_class
from modelkeep.papers.saha2020.scenes.programs import Program, execute
from modelkeep.papers.saha2020.scenes.scene import ATTRIBUTES, Attribute, Scene, Thing

_RELATIONS = {"left": ("left", "of"), "right": ("right", "of"), "behind": ("behind",), "front": ("in", "front", "of")}
MOST = 6
_FIXED = "what is the how many are there a an more than fewer equal number and as same or left right of behind in front"
_NOUNS = ("thing", *ATTRIBUTES["shape"])
VOCABULARY: tuple[str, ...] = (
    "",  # what fills up a shorter question
    *_FIXED.split(),
    *ATTRIBUTES,
    *(value for values in ATTRIBUTES.values() for value in values),
    "thing",
    *(f"{noun}s" for noun in _NOUNS),
)
_YES_NO = ("yes", "no")
_COUNTS = tuple(map(str, range(MOST + 1)))
ANSWERS = (*_YES_NO, *_COUNTS, *(value for values in ATTRIBUTES.values() for value in values))


@dataclass(frozen=True)
class Question:
    """What is asked, what it means, and the right answer."""

    family: str
    words: tuple[str, ...]
    program: Program
    answer: str

    def __str__(self) -> str:
        return f"{' '.join(self.words)}? {self.answer}"


Asked = tuple[Sequence[str], Program]
_Template = tuple[Callable[[Scene, Random], Asked | None], tuple[str, ...]]
"""A way to ask about a scene (None: it did not work out, draw again) and the answers that it can have."""


def ask(scene: Scene, family: str, random: Random) -> Question:
    """A question of the family about the scene. The answer is drawn first, so that no answer is the usual one."""
    if family not in FAMILIES:
        raise unknown_class("The question families", family, tuple(FAMILIES))
    while True:
        template, answers = random.choice(FAMILIES[family])
        for wanted in random.sample(answers, len(answers)):
            for _ in range(40):
                asked = template(scene, random)
                if asked is not None and execute(asked[1], scene) == wanted:
                    return Question(family, tuple(asked[0]), asked[1], wanted)


def tokens(words: Sequence[str], length: int) -> list[int]:
    """The places of the words in `VOCABULARY`, filled up with zeros.

    >>> tokens(["what", "is"], 4)
    [1, 2, 0, 0]
    """
    return [VOCABULARY.index(word) for word in words] + [0] * (length - len(words))


def _choose_attributes(thing: Thing, random: Random, without: str | None = None) -> dict[Attribute, str]:
    """Some of its attributes."""
    told = [name for name in ATTRIBUTES if name != without]
    return {name: getattr(thing, name) for name in told if random.random() < 0.5}


def _describe_anything(random: Random, scene: Scene) -> dict[Attribute, str]:
    """A description of something that may or may not be in the scene, one or two attributes long."""
    if random.random() < 0.5:
        told = _choose_attributes(random.choice(scene), random)
    else:
        told = {name: random.choice(values) for name, values in ATTRIBUTES.items()}
    kept = random.sample(list(told), min(len(told), random.randint(1, 2)))
    return {name: told[name] for name in ATTRIBUTES if name in kept}


def _words(told: dict[Attribute, str], plural: bool = False) -> list[str]:
    noun = told.get("shape", "thing")
    return [*(value for name, value in told.items() if name != "shape"), f"{noun}s" if plural else noun]


def _filter(told: dict[Attribute, str], things: Program = ("scene",)) -> Program:
    for value in told.values():
        things = ("filter", value, things)
    return things


def _the(scene: Scene, random: Random, without: str | None = None) -> Asked | None:
    """ "the …": words and a program for exactly one thing of the scene."""
    told = _choose_attributes(random.choice(scene), random, without)
    if sum(all(thing.is_a(value) for value in told.values()) for thing in scene) != 1:
        return None
    return ["the", *_words(told)], ("unique", _filter(told))


def _relative(scene: Scene, random: Random) -> Asked | None:
    """ "left of the …": words and a program for all that is there."""
    anchor = _the(scene, random)
    if anchor is None:
        return None
    relation = random.choice(list(_RELATIONS))
    return [*_RELATIONS[relation], *anchor[0]], ("relate", relation, anchor[1])


def _query(attribute: Attribute) -> _Template:
    def what(scene: Scene, random: Random) -> Asked | None:
        thing = _the(scene, random, without=attribute)
        return thing and (["what", attribute, "is", *thing[0]], ("query", attribute, thing[1]))

    return what, ATTRIBUTES[attribute]


def _count(scene: Scene, random: Random) -> Asked:
    told = _describe_anything(random, scene)
    return ["how", "many", *_words(told, plural=True), "are", "there"], ("count", _filter(told))


def _numbers(how: str, before: str, between: str) -> _Template:
    def compared(scene: Scene, random: Random) -> Asked | None:
        one, other = _describe_anything(random, scene), _describe_anything(random, scene)
        if one == other:
            return None
        words = ["are", "there", *before.split(), *_words(one, True), between, *_words(other, True)]
        return words, (how, ("count", _filter(one)), ("count", _filter(other)))

    return compared, _YES_NO


def _same(attribute: Attribute) -> _Template:
    def compared(scene: Scene, random: Random) -> Asked | None:
        one, other = _the(scene, random, attribute), _the(scene, random, attribute)
        if one is None or other is None or execute(("count", ("union", one[1][1], other[1][1])), scene) != "2":
            return None  # a thing is not compared with itself
        words = ["is", *one[0], "the", "same", attribute, "as", *other[0]]
        return words, ("same", attribute, one[1], other[1])

    return compared, _YES_NO


def _query_there(attribute: Attribute) -> _Template:
    def what(scene: Scene, random: Random) -> Asked | None:
        place = _relative(scene, random)
        if place is None:
            return None
        told = _choose_attributes(random.choice(scene), random, without=attribute)
        things = _filter(told, place[1])
        if execute(("count", things), scene) != "1":
            return None
        return ["what", attribute, "is", "the", *_words(told), *place[0]], ("query", attribute, ("unique", things))

    return what, ATTRIBUTES[attribute]


def _exist_there(scene: Scene, random: Random) -> Asked | None:
    place, told = _relative(scene, random), _describe_anything(random, scene)
    return place and (["is", "there", "a", *_words(told), *place[0]], ("exist", _filter(told, place[1])))


def _count_there(scene: Scene, random: Random) -> Asked | None:
    place, told = _relative(scene, random), _choose_attributes(random.choice(scene), random)
    words = ["how", "many", *_words(told, True), "are"]
    return place and ([*words, *place[0]], ("count", _filter(told, place[1])))


def _either(scene: Scene, random: Random) -> Asked | None:
    one, other = _describe_anything(random, scene), _describe_anything(random, scene)
    if one == other:
        return None
    words = ["how", "many", "things", "are", *_words(one, True), "or", *_words(other, True)]
    return words, ("count", ("union", _filter(one), _filter(other)))


def _both(how: str, *before: str) -> Callable[[Scene, Random], Asked | None]:
    def asked(scene: Scene, random: Random) -> Asked | None:
        one, other = _relative(scene, random), _relative(scene, random)
        if one is None or other is None or one == other:
            return None
        return [*before, *one[0], "and", *other[0]], (how, ("intersect", one[1], other[1]))

    return asked


FAMILIES: dict[str, tuple[_Template, ...]] = {
    "query": tuple(map(_query, ATTRIBUTES)),
    "count": ((_count, _COUNTS),),
    "compare": (
        _numbers("more", "more", "than"),
        _numbers("fewer", "fewer", "than"),
        _numbers("equal", "an equal number of", "and"),
        *map(_same, ATTRIBUTES),
    ),
    "spatial": (*map(_query_there, ATTRIBUTES), (_exist_there, _YES_NO), (_count_there, _COUNTS)),
    "logic": (
        (_either, _COUNTS),
        (_both("count", "how", "many", "things", "are"), _COUNTS),
        (_both("exist", "is", "there", "a", "thing"), _YES_NO),
    ),
}
"""Attribute identification, counting, comparison, spatial relationships and logical operations, as Saha2020 says."""
LONGEST = 21
"""Words of "how many things are in front of the small red metal cube and in front of the large blue metal cube"."""
