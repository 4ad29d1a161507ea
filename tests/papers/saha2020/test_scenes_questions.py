"""Questions: their answers against an evaluator that reads the words, not the program."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.papers.saha2020.scenes import (
    ANSWERS,
    ATTRIBUTES,
    FAMILIES,
    LONGEST,
    VOCABULARY,
    Question,
    Scene,
    Thing,
    ask,
    draw_scene,
    execute,
    tokens,
)

PLURALS = {"things": "thing", "cubes": "cube", "spheres": "sphere", "cylinders": "cylinder"}


def are(thing: Thing, words: list[str]) -> bool:
    """Whether all of "small red metal cube(s)" is true of the thing."""
    own = {thing.size, thing.colour, thing.material, thing.shape, "thing"}
    return all(PLURALS.get(word, word) in own for word in words)


def places(scene: Scene, words: list[str]) -> list[Thing]:
    """The things "left of the red cube", "in front of …"."""
    where = words[0]
    (anchor,) = (thing for thing in scene if are(thing, words[words.index("the") + 1 :]))  # exactly one
    if where in ("left", "right"):
        return [thing for thing in scene if (thing.x - anchor.x) * (1 if where == "right" else -1) > 0]
    return [thing for thing in scene if (thing.y - anchor.y) * (1 if where == "in" else -1) > 0]


def split(words: list[str], at: str) -> tuple[list[str], list[str]]:
    i = words.index(at)
    return words[:i], words[i + 1 :]


def relation_at(words: list[str]) -> int:
    """Where "left of …" begins; the number of words where there is none."""
    return next((i for i, word in enumerate(words) if word in ("left", "right", "behind", "in")), len(words))


def by_words(question: Question, scene: Scene) -> str:
    """What a reader of the sentence answers, without its program."""
    words = list(question.words)
    match words[:2]:
        case ["what", attribute]:
            rest = words[4:]  # what colour is the …
            i = relation_at(rest)
            there = places(scene, rest[i:]) if i < len(rest) else list(scene)
            (one,) = (thing for thing in there if are(thing, rest[:i]))
            return str(getattr(one, attribute))
        case ["how", "many"]:
            if words[-2:] == ["are", "there"]:
                return str(sum(are(thing, words[2:-2]) for thing in scene))
            wanted, rest = split(words[2:], "are")
            if "or" in rest:
                one_kind, other_kind = split(rest, "or")
                return str(sum(are(thing, one_kind) or are(thing, other_kind) for thing in scene))
            return str(len([thing for thing in everywhere(scene, rest) if are(thing, wanted)]))
        case ["is", "there"]:
            i = relation_at(words)
            found = [thing for thing in everywhere(scene, words[i:]) if are(thing, words[3:i])]
            return "yes" if found else "no"
        case ["are", "there"]:
            between = "and" if "equal" in words else "than"
            before, after = split(words[2:], between)
            first, second = (
                sum(are(thing, kind) for thing in scene) for kind in (before[4 if "equal" in words else 1 :], after)
            )
            return (
                "yes" if {"more": first > second, "fewer": first < second, "an": first == second}[before[0]] else "no"
            )
        case _:  # is the … the same colour as the …
            subject, rest = split(words[2:], "same")
            attribute, reference = rest[0], rest[3:]
            (a,) = (thing for thing in scene if are(thing, subject[:-1]))
            (b,) = (thing for thing in scene if are(thing, reference))
            assert a is not b
            return "yes" if getattr(a, attribute) == getattr(b, attribute) else "no"


def everywhere(scene: Scene, words: list[str]) -> list[Thing]:
    """The things at all places that are joined by "and"."""
    if "and" not in words:
        return places(scene, words)
    one, other = (places(scene, part) for part in split(words, "and"))
    return [thing for thing in one if thing in other]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_answer_is_what_the_words_say(family: str, seed: int) -> None:
    random = Random(seed)
    things = draw_scene(random)
    question = ask(things, family, random)
    assert question.family == family
    assert question.answer == by_words(question, things) == execute(question.program, things)
    assert question.answer in ANSWERS


def test_no_question_gives_its_answer_away() -> None:
    random = Random(0)
    for _ in range(300):
        question = ask(draw_scene(random), random.choice(["query", "spatial"]), random)
        if question.words[0] == "what":
            attribute = question.words[1]
            place = relation_at(list(question.words))
            assert not set(question.words[:place]) & set(ATTRIBUTES[attribute])  # type: ignore[index]


def test_the_longest_question_and_all_words_fit() -> None:
    random = Random(1)
    asked = [ask(draw_scene(random), family, random) for _ in range(400) for family in FAMILIES]
    assert max(len(question.words) for question in asked) <= LONGEST
    assert {word for question in asked for word in question.words} == set(VOCABULARY) - {""}
    assert len(set(VOCABULARY)) == len(VOCABULARY)
    assert len(set(ANSWERS)) == len(ANSWERS)
    row = tokens(asked[0].words, LONGEST)
    assert len(row) == LONGEST
    assert tuple(VOCABULARY[i] for i in row if i) == asked[0].words


def test_answers_are_balanced() -> None:
    random = Random(2)
    answers = {
        family: Counter(ask(draw_scene(random), family, random).answer for _ in range(400)) for family in FAMILIES
    }
    assert max(answers["compare"].values()) < 0.6 * 400
    for family in ("query", "count", "spatial", "logic"):
        assert max(answers[family].values()) < 0.35 * 400
    everyday = [*answers["query"].values()]
    assert len(everyday) == 13
    assert min(everyday) > 5


def test_the_same_seed_asks_the_same() -> None:
    things = draw_scene(Random(0))
    assert ask(things, "logic", Random(7)) == ask(things, "logic", Random(7))


def test_an_ambiguous_program_is_refused() -> None:
    things = draw_scene(Random(0))
    with pytest.raises(InputError, match="exactly one"):
        execute(("query", "colour", ("unique", ("scene",))), things)
    with pytest.raises(InputError, match="no function 'sort'"):
        execute(("sort", ("scene",)), things)
    with pytest.raises(InputError, match="Did you mean 'count'"):
        ask(things, "counts", Random(0))
