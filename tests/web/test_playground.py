"""The playground finds what the attacks find, proves what the certificate proves, and keeps the two apart."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import FMN, PGD
from modelkeep.certify import Certify
from modelkeep.core.errors import AccessError, InputError
from modelkeep.core.norms import Ball
from modelkeep.web.playground import STEPS, Playground, round_up
from modelkeep.zoo import datasets, pretrained


@pytest.fixture(scope="module")
def playground() -> Playground:
    return Playground(pretrained.load("digits-certified"), datasets.load("digits", "test").first(60))


def test_the_nearest_and_the_certificate_are_those_of_the_rooms(playground: Playground) -> None:
    one = playground.data.take([3])
    trail = playground.trail(3, "l2")
    assert trail.nearest is not None
    assert trail.nearest == float(FMN(norm="l2")(playground.model, one).distance)
    assert trail.certified == pytest.approx(float(Certify(radius=0.3)(playground.model, one).radii), rel=1e-12)
    assert trail.certified is not None
    assert trail.certified < trail.nearest < trail.radii[-1]


def test_every_position_shows_an_input_within_its_radius_and_its_own_answer(playground: Playground) -> None:
    trail = playground.trail(3, "l2")
    states = []
    for step in range(0, STEPS + 1, 4):
        found = playground.at(3, "l2", step)
        states.append(found.state)
        assert found.distance <= found.radius * (1 + 1e-6)
        label = int(playground.model.predict(found.shown[None]))
        assert found.answer[0].name == playground.model.classes[label]
        assert (found.state == "found") == (found.answer[0].name != trail.label)
        assert trail.certified is not None
        assert (found.state == "proved") == (0 < found.radius < trail.certified)
    assert sorted(set(states)) == ["found", "open", "proved", "start"]
    assert states == sorted(states, key=["start", "proved", "open", "found"].index), "nothing is lost again farther out"


def test_what_is_found_is_what_pgd_finds(playground: Playground) -> None:
    found = playground.at(3, "l2", STEPS)
    expected = PGD(norm="l2", radius=found.radius)(playground.model, playground.data.take([3]))
    torch.testing.assert_close(found.shown, expected.adversarial[0], rtol=0, atol=0)
    assert found.attacked is not None
    assert found.attacked.command == expected.command


def test_on_the_way_it_is_on_the_line_to_the_nearest(playground: Playground) -> None:
    trail, found = playground.trail(3, "l2"), playground.at(3, "l2", STEPS // 2)
    assert found.state == "open"
    assert found.distance == pytest.approx(found.radius, rel=1e-5)
    ahead = Ball("l2", None).distance(found.shown[None], trail.search.adversarial)
    assert trail.nearest is not None
    assert float(ahead) == pytest.approx(trail.nearest - found.radius, rel=1e-4)
    assert "proves nothing" in found.sentence


def test_nothing_is_found_where_nothing_is_to_be_found() -> None:
    module = nn.Linear(2, 2)
    module.weight.data, module.bias.data = torch.full((2, 2), 1e-3), torch.tensor([2.0, 0.0])
    model = Model(module, input_shape=(2,), classes=("always", "never"))
    playground = Playground(model, Data(torch.full((1, 2), 0.5), torch.tensor([0]), model.classes))
    trail = playground.trail(0, "linf")
    assert trail.nearest is None
    assert trail.certified is not None
    assert trail.certified > 1e6, "both rows are alike, so that only rounding can bring the logits together"
    assert {playground.at(0, "linf", step).state for step in (1, STEPS)} == {"proved"}


def test_a_wrong_answer_is_nothing_to_attack(playground: Playground) -> None:
    wrong = Data(playground.data.x[:1], (playground.data.y[:1] + 1) % 10, playground.data.classes)
    found = Playground(playground.model, wrong).at(0, "l2", STEPS)
    assert found.state == "wrong"
    assert found.distance == 0


def test_refusals_say_what_can_be_had_instead(playground: Playground) -> None:
    with pytest.raises(InputError, match="examples 0 to 59"):
        playground.trail(60, "l2")
    with pytest.raises(InputError, match="'norm' parameter"):
        playground.trail(0, "l7")
    with pytest.raises(InputError, match="'step' parameter"):
        playground.at(0, "l2", STEPS + 1)
    black_box = Model.answering(lambda x: x.reshape(len(x), -1)[:, :10], input_shape=(1, 8, 8), classes=10)
    with pytest.raises(AccessError, match="weights"):
        Playground(black_box, Data(playground.data.x, playground.data.y, black_box.classes))


def test_a_scale_ends_at_a_round_number() -> None:
    assert round_up(0.0613) == 0.062
    assert round_up(0.0) == 1.0
