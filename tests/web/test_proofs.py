"""What is proved at a dragged radius is what Certify counts there."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.certify import Certify
from modelkeep.core.errors import AccessError, InputError
from modelkeep.web import proofs
from modelkeep.web.proofs import Proofs
from modelkeep.zoo import datasets, pretrained


@pytest.fixture(scope="module")
def certified() -> Proofs:
    return Proofs(pretrained.load("digits-certified"), datasets.load("digits", "test"))


@pytest.mark.parametrize("radius", [0.05, 0.3, 0.9])
def test_the_shares_are_those_of_certify_at_that_radius(certified: Proofs, radius: float) -> None:
    expected = Certify(radius=radius)(certified.model, certified.data)
    found = certified.at("l2", radius)
    assert found.verified == expected.verified
    assert found.certified == expected.certified_at(radius)
    assert found.clean == expected.clean


def test_what_loses_its_proof_is_right_and_ordered_by_its_radius(certified: Proofs) -> None:
    found = certified.at("l2", 0.3)
    radii = certified.certified("l2").radii
    right = certified.model.predict(certified.data.x) == certified.data.y
    assert set(found.lost) == set(torch.nonzero(right & (radii <= 0.3)).flatten().tolist())
    assert [certified.radius(i, "l2") for i in found.lost] == sorted(float(radii[i]) for i in found.lost)


def test_without_a_change_every_answer_stands(certified: Proofs) -> None:
    found = certified.at("l2", 0.0)
    assert found.verified == found.clean
    assert found.lost == ()


def test_refusals(certified: Proofs, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="'radius' parameter"):
        certified.at("l2", -1.0)
    black_box = Model.answering(lambda x: x.reshape(len(x), -1)[:, :10], input_shape=(1, 8, 8), classes=10)
    with pytest.raises(AccessError, match="weights"):
        Proofs(black_box, Data(certified.data.x, certified.data.y, black_box.classes)).radius(0, "l2")
    monkeypatch.setattr(proofs, "MOST_PARAMETERS", 1000)
    with pytest.raises(InputError, match="takes minutes"):
        Proofs(certified.model, certified.data).certified("l2")
