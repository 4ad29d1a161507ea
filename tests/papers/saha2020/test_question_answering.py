"""Answering: features, questions and the MAC network fit together, and it can learn questions by heart."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from modelkeep.attack import PGD
from modelkeep.core.model import Model
from modelkeep.papers.saha2020.question_answering import CLASSES, Features, FromBank, FromPicture, Quiz, close_ups
from modelkeep.papers.saha2020.scenes import ANSWERS, FAMILIES, LONGEST, VOCABULARY, find_thing
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo.architectures import small_resnet
from modelkeep.zoo.architectures.mac import MAC

PIXELS = 24


@pytest.fixture(scope="module")
def quiz() -> Quiz:
    return Quiz(scenes=13, rounds=1, pixels=PIXELS, seed=0)


@pytest.fixture(scope="module")
def features(quiz: Quiz) -> Features:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        module = small_resnet((3, PIXELS, PIXELS), len(CLASSES), blocks=1, width=4)
    classifier = Model(module, input_shape=(3, PIXELS, PIXELS), classes=CLASSES)
    return Features(classifier, "section2", quiz.pictures)


@pytest.fixture
def mac() -> MAC:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return MAC(channels=8, vocabulary=len(VOCABULARY), answers=len(ANSWERS), width=16, steps=2)


def test_close_ups_show_the_thing_that_they_are_named_after() -> None:
    data = close_ups(40, 32, seed=0)
    assert data.input_shape == (3, 16, 16)
    assert torch.equal(close_ups(40, 32, seed=0).x, data.x)
    for name, strongest in (("red", 0), ("green", 1), ("blue", 2)):
        own = torch.stack([x for x, y in zip(data.x, data.y, strict=True) if CLASSES[y].startswith(name)])
        spread = own.amax(dim=1) - own.amin(dim=1)  # grey has none
        coloured = own.movedim(1, 0)[:, spread > 0.25]
        assert int(coloured.mean(dim=1).argmax()) == strongest


def test_a_quiz_asks_every_family_about_every_scene(quiz: Quiz) -> None:
    data = quiz.data()
    assert data.x.shape == (13 * len(FAMILIES), 1 + LONGEST)
    assert [question.family for question in quiz.questions[:5]] == list(FAMILIES)
    assert data.x[:, 0].tolist() == [i for i in range(13) for _ in FAMILIES]
    again = Quiz(scenes=13, rounds=1, pixels=PIXELS, seed=0)
    assert torch.equal(again.pictures, quiz.pictures)
    assert torch.equal(again.data().x, data.x)
    assert not torch.equal(Quiz(scenes=13, rounds=1, pixels=PIXELS, seed=1).pictures, quiz.pictures)


def test_features_have_mean_0_and_variance_1(quiz: Quiz, features: Features) -> None:
    bank = features.of(quiz.pictures, "cpu")
    assert bank.shape == (13, 8, PIXELS // 2, PIXELS // 2)
    assert not bank.requires_grad
    torch.testing.assert_close(bank.mean(dim=(0, 2, 3)), torch.zeros(8), atol=1e-4, rtol=0)
    torch.testing.assert_close(bank.std(dim=(0, 2, 3)), torch.ones(8), atol=1e-3, rtol=0)


def test_it_learns_sixty_four_questions_by_heart(quiz: Quiz, features: Features, mac: MAC) -> None:
    bank = features.of(quiz.pictures, "cpu")[:, :, ::3, ::3]
    model = Model(FromBank(bank, mac), input_shape=(1 + LONGEST,), classes=ANSWERS, bounds=None)
    data = quiz.data().take(range(64))
    fit(model, data, cross_entropy, Recipe(steps=130, batch_size=64, learning_rate=1e-2), seed=0)
    assert float((model.predict(data.x) == data.y).double().mean()) > 0.95
    assert not any("bank" in name for name in model.module.state_dict())


def test_from_the_picture_it_answers_as_from_the_bank(quiz: Quiz, features: Features, mac: MAC) -> None:
    bank, (asked, _) = features.of(quiz.pictures, "cpu"), quiz.with_pictures(20)
    by_bank = FromBank(bank, mac)(quiz.data().x[:20])
    torch.testing.assert_close(FromPicture(features, mac)(asked.x), by_bank, atol=1e-4, rtol=1e-4)


def test_an_attack_on_the_background_leaves_things_and_question_alone(quiz: Quiz, features: Features, mac: MAC) -> None:
    asked, background = quiz.with_pictures(10)
    whole = Model(FromPicture(features, mac), input_shape=asked.input_shape, classes=ANSWERS)
    asked = replace(asked, y=whole.predict(asked.x))  # all are right, so that there is something to attack
    found = PGD(radius=1.0, steps=20, mask=background)(whole, asked, seed=0)
    changed = (found.adversarial != found.original).any(dim=1)
    assert changed.any()
    for i, scene in enumerate(quiz.about[:10]):
        assert not (changed[i] & find_thing(quiz.scenes[scene], PIXELS)).any()
    assert torch.equal(found.adversarial[:, 3], found.original[:, 3])
