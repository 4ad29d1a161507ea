"""The catalogue says of each attack what is true of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import catalogue
from modelkeep.core.errors import InputError

QUICK = {"steps": 2, "queries": 100, "generations": 2, "population": 4, "bisections": 1, "binary_search_steps": 1}


@pytest.mark.parametrize("name", catalogue.ATTACKS)
def test_every_attack_runs_by_its_name_in_each_of_its_norms(name: str) -> None:
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), input_shape=(1, 4, 4), classes=3)
    x = torch.rand(4, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    data = Data(x, model.predict(x), model.classes)
    entry = catalogue.ATTACKS[name]
    settings = {key: value for key, value in QUICK.items() if key in entry.takes}
    assert entry.norms
    for norm in entry.norms:
        named = {**settings, "norm": norm} if "norm" in entry.takes else settings
        run = catalogue.prepared(name, named, radius=0.3 if entry.needs_radius else None)
        found = run(model, data, seed=0)
        assert found.norm == norm
        assert (found.radius is not None) == (entry.needs_radius or name == "one-pixel")


def test_what_an_attack_does_not_take_is_refused() -> None:
    with pytest.raises(InputError, match="The attack 'fgsm' takes no steps"):
        catalogue.prepared("fgsm", {"steps": 3}, radius=0.1)
    with pytest.raises(InputError, match="takes no radius"):
        catalogue.prepared("cw", {}, radius=0.1)
    with pytest.raises(InputError, match=r"is for l2, linf, l0\. Got l1"):
        catalogue.prepared("cw", {"norm": "l1"})
    with pytest.raises(InputError, match="needs one"):
        catalogue.prepared("pgd", {"norm": None})
    with pytest.raises(InputError, match="There is no attack 'magic'"):
        catalogue.prepared("magic", {})
