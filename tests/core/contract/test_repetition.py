"""A declared method whose result does not say how to make it again breaks the contract."""

from __future__ import annotations

import pytest
import torch

from core.contract.little import Mean, examples, honest, images
from modelkeep import Data, Model
from modelkeep.core.contract import ContractViolation, check_method
from modelkeep.core.contract.repetition import check_repetition
from modelkeep.core.method import declare, recorded, setting


@declare("test", "repeated-part")
class Part:
    """A setting with a setting."""

    size: float = setting("How large.", default=1.0)


@declare("test", "repeated", access="scores")
class Declared:
    """The mean logit of noisy inputs."""

    part: Part = setting("A part.", default_factory=Part)
    sizes: tuple[float, ...] = setting("Some sizes.", default=())
    mask: torch.Tensor | None = setting("Where to look.", default=None)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Mean:
        return honest(model, data, seed)


@declare("test", "forgetful", access="scores")
class Forgetful:
    """Its size grows each time that it is made."""

    size: float = setting("How large.", default=1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 2 * self.size)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Mean:
        return honest(model, data, seed)


def promise() -> None:
    """The promise."""


@pytest.mark.parametrize(
    "method",
    [Declared(), Declared(part=Part(size=0.5), sizes=(1.0, 2.5)), Declared(mask=torch.ones(3))],
    ids=["defaults", "plain", "a tensor"],
)
def test_a_declared_method_keeps_the_contract(method: Declared) -> None:
    model = images()
    check_method(method, model, examples(model))


def test_a_line_of_python_that_makes_another_method_is_found_out() -> None:
    model = images()
    with pytest.raises(ContractViolation, match=r"says how to make it again.*it is another method"):
        check_method(Forgetful(size=3.0), model, examples(model))


def test_a_result_of_another_method_is_found_out() -> None:
    model = images()
    result = honest(model, examples(model), 0)
    with pytest.raises(ContractViolation, match=r"The promise\. Broken on good data: it says that None"):
        check_repetition(promise, Declared(), result)
    with pytest.raises(ContractViolation, match="it says that test/repeated-part"):
        check_repetition(promise, Declared(), recorded(result, Part()))
