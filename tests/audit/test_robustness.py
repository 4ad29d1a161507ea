"""The check of robustness runs any attack of the registry that stays within a radius."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.audit.robustness import CheckRobustness
from modelkeep.core.errors import InputError


@pytest.fixture
def data(small_cnn: Model) -> Data:
    x = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return Data(x, small_cnn.predict(x), small_cnn.classes)


def test_it_measures_in_both_norms_by_pgd(small_cnn: Model, data: Data) -> None:
    section = CheckRobustness(radii=(0.1, 0.2), steps=3)(small_cnn, data)
    norms = ["L2" if ", L2" in measure.name else "L∞" for measure in section.measures]
    assert norms == ["L∞", "L∞", "L2", "L2"]
    assert "PGD looks for a small change" in section.lead
    assert {finding.id.split(".")[0] for finding in section.findings} == {"robustness"}


def test_another_attack_is_named(small_cnn: Model, data: Data) -> None:
    section = CheckRobustness(radii=(0.001,), attack="fgsm")(small_cnn, data)
    assert "FGSM looks for a small change" in section.lead
    assert all("pgd" not in finding.id for finding in section.findings)


def test_an_attack_without_a_radius_is_refused(small_cnn: Model, data: Data) -> None:
    with pytest.raises(InputError, match="needs an attack within a radius; 'deepfool' takes none"):
        CheckRobustness(attack="deepfool")(small_cnn, data)
    with pytest.raises(InputError, match="There is no attack 'pdg'"):
        CheckRobustness(attack="pdg")(small_cnn, data)
