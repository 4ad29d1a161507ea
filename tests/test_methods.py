"""Every method keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contract.little import examples, images, table
from modelkeep import Model
from modelkeep.attack import pgd
from modelkeep.contract import Method, check_method
from modelkeep.explain import Gaussian, Line, influence

# A new method gets a line here, with its settings bound, so that it takes the model, the data and the seed. Both
# models have a module called "hidden"; torch.fx can trace the one for images, and cannot trace the one for tables.
METHODS: dict[str, Method] = {
    "pgd, linf": lambda m, d, seed: pgd(m, d, radius=0.1, steps=3, seed=seed),
    "pgd, l2": lambda m, d, seed: pgd(m, d, norm="l2", radius=0.5, steps=3, restarts=2, batch_size=4, seed=seed),
    "influence, input": lambda m, d, seed: influence(m, d, distribution=Gaussian(0.1, count=3), seed=seed),
    "influence, hidden": lambda m, d, seed: influence(m, d, slice="hidden", distribution=Line(0.0, count=3), seed=seed),
}


@pytest.mark.parametrize("make", [images, table])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_keeps_the_contract(name: str, make: Callable[[], Model]) -> None:
    model = make()
    report = check_method(METHODS[name], model, examples(model))
    assert set(report.not_checked.values()) <= {"there is no CUDA device"}
