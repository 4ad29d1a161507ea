"""An honest method passes the contract, and each kind of cheat is found out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pytest
import torch
from pydantic import PlainSerializer, PlainValidator
from torch import nn

from core.contract.little import Mean, examples, honest, images, table, violation
from modelkeep import Data, Model, Result
from modelkeep.certify import Certify, RelaxedTopK
from modelkeep.core.contract import check_method
from modelkeep.core.errors import ModelError, ModelKeepError
from modelkeep.core.results import measured


def test_an_honest_method_passes_and_the_report_says_what_was_seen() -> None:
    report = check_method(honest, images(), examples(images()))
    assert "A method leaves the model as it was." in report.checked
    assert "A method works for two classes." in report.checked
    cuda = torch.cuda.is_available()
    assert report.not_checked == ({} if cuda else {"A method works on a CUDA device.": "there is no CUDA device"})


def test_a_declared_method_is_checked_with_its_settings() -> None:
    report = check_method(Certify(radius=0.1, guarantee=RelaxedTopK(1)), images(), examples(images()))
    assert REPEAT in report.checked
    assert REPEAT not in check_method(honest, images(), examples(images())).checked


def test_a_method_may_refuse_a_model_in_train_mode() -> None:
    def strict(model: Model, data: Data, seed: int) -> Mean:
        model.require_eval()
        return honest(model, data, seed)

    check_method(strict, images(), examples(images()))


def test_what_cannot_be_checked_is_named() -> None:
    def of_weights(model: Model, data: Data, seed: int) -> Mean:
        model.require_fit(data)
        model.check_inputs(data.x)
        total = float(sum(p.detach().sum() for p in model.module.parameters()))
        if not np.isfinite(total):
            raise ModelError("The weights are not finite.")
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance:
            return Mean(provenance=provenance(), mean=total)

    model = images(last=nn.Linear(4, 5), narrow=nn.AdaptiveAvgPool1d(4))
    reasons = check_method(of_weights, model, examples(model)).not_checked.values()
    assert {"the method runs no module", "the model does not end in a plain linear layer"} <= set(reasons)


REPEAT = "The result of a declared method says how to make it again: by its settings, and in a line of Python."
RESULT = "A method returns a Result that prints, comes back from JSON and knows its model, data and seed."
SEED = "The same seed gives the same result, whatever the global random state."
BAD = "A method refuses data and weights that cannot be used, with a ModelKeepError."
EXCEPTION = "An exception from inside the model comes out of the method, and everything is as it was."
TRAIN = "A model in train mode gives the result of eval mode and is left in train mode, or is refused."
HALF = "A method works where weights have gradients and some are frozen, and leaves them so."
MODEL = "A method leaves the model as it was."


@dataclass(frozen=True, kw_only=True, eq=False)
class Forgetful(Mean):
    """Comes back from JSON as another one."""

    lost: Annotated[float, PlainValidator(lambda _: 0.0)] = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Unreadable(Mean):
    """Does not come back at all."""

    lost: Annotated[int, PlainSerializer(lambda _: "one")] = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Silent(Result):
    """Cannot be printed, because it has no rows."""


CHANGES: list[tuple[Callable[[Mean], object], str]] = [
    (lambda r: {"mean": r.mean}, "on good data: it returned dict."),
    (lambda r: Forgetful(provenance=r.provenance, mean=r.mean), "read back from JSON: it is another result."),
    (lambda r: Unreadable(provenance=r.provenance, mean=r.mean), "read back from JSON: the result is refused"),
    (lambda r: Silent(provenance=r.provenance), "printed: it raised NotImplementedError()"),
    (lambda r: replace(r, provenance=replace(r.provenance, seed=4)), "it says Provenance("),
    (lambda r: replace(r, provenance=replace(r.provenance, model=None)), "it says Provenance("),
    (lambda r: replace(r, provenance=replace(r.provenance, data="data")), "it says Provenance("),
]


@pytest.mark.parametrize(("change", "what"), CHANGES)
def test_a_result_that_is_none(change: Callable[[Mean], object], what: str) -> None:
    message = violation(lambda m, d, seed: change(honest(m, d, seed)))
    assert message.startswith(f"{RESULT} Broken ")
    assert what in message


def test_a_method_that_gives_another_result_each_time() -> None:
    count = itertools.count()
    message = violation(lambda m, d, seed: replace(honest(m, d, seed), mean=float(next(count))))
    assert message == f"{SEED} Broken run again: it gave another mean."


def test_a_method_that_draws_global_random_numbers_and_hides_it() -> None:
    def hiding(model: Model, data: Data, seed: int) -> Mean:
        with torch.random.fork_rng():
            return replace(honest(model, data, seed), mean=float(torch.rand(())))

    assert violation(hiding) == f"{SEED} Broken run again: it gave another mean."


UNUSABLE: dict[str, Callable[[Model, Data], bool]] = {
    "given NaN": lambda m, d: bool(d.x.isnan().any()),
    "given a wrong shape": lambda m, d: d.input_shape != m.input_shape,
    "given a wrong dtype": lambda m, d: d.x.dtype != torch.float32,
    "given no examples": lambda m, d: len(d) == 0,
    "given NaN for weights": lambda m, d: any(bool(p.isnan().any()) for p in m.module.parameters()),
}


@pytest.mark.parametrize("occasion", UNUSABLE)
@pytest.mark.parametrize("raises", [False, True])
def test_a_method_that_takes_what_cannot_be_used(occasion: str, raises: bool) -> None:
    good = honest(images(), examples(images()), 0)

    def careless(model: Model, data: Data, seed: int) -> Mean:
        if not UNUSABLE[occasion](model, data):
            return honest(model, data, seed)
        if raises:
            raise RuntimeError("mat1 and mat2")
        return good

    what = "it raised RuntimeError('mat1 and mat2')" if raises else "it returned a result"
    assert violation(careless) == f"{BAD} Broken {occasion}: {what}."


def test_a_method_that_swallows_an_exception_or_makes_it_another() -> None:
    good = honest(images(), examples(images()), 0)

    def swallowing(model: Model, data: Data, seed: int) -> Mean:
        try:
            return honest(model, data, seed)
        except ModelKeepError:
            raise
        except Exception:
            return good

    def renaming(model: Model, data: Data, seed: int) -> Mean:
        try:
            return honest(model, data, seed)
        except Exception as error:
            raise ModelError("something went wrong") from error

    # Eight modules in the network and its preprocessing: nine calls for one pass.
    assert (
        violation(swallowing)
        == f"{EXCEPTION} Broken when call 1 of 9 of a module raised: it went on as if nothing had happened."
    )
    assert violation(renaming).startswith(
        f"{EXCEPTION} Broken when call 1 of 9 of a module raised: it raised ModelError("
    )


def test_a_method_that_cleans_up_only_when_all_goes_well() -> None:
    def leaking(model: Model, data: Data, seed: int) -> Mean:
        result = honest(model, data, seed)
        handle = model.module.register_forward_hook(lambda *_: None)
        with model.frozen(0):
            model.logits(data.x)
        handle.remove()
        return result

    # The first nine calls are those of the honest part; the fourteenth falls into the other.
    message = violation(leaking)
    assert message == f"{MODEL} Broken when call 14 of 18 of a module raised: it changed _forward_hooks of module."


def test_a_method_that_restores_the_mode_with_one_switch() -> None:
    def switching(model: Model, data: Data, seed: int) -> Mean:
        was = model.module.training
        model.module.eval()
        try:
            return honest(model, data, seed)
        finally:
            model.module.train(was)

    assert violation(switching).startswith(f"{MODEL} Broken in train mode: it changed training of module.")


def test_a_method_that_runs_the_model_as_it_finds_it() -> None:
    def unaware(model: Model, data: Data, seed: int) -> Mean:
        result = honest(model, data, seed)
        with torch.random.fork_rng(), torch.no_grad():
            return replace(result, mean=float(model.forward(data.x).mean()))

    assert violation(unaware, table()) == f"{TRAIN} Broken in train mode: it gave another result."
    assert "running_mean" in violation(unaware, images())


def test_a_method_that_forgets_that_weights_may_be_frozen_or_have_gradients() -> None:
    def clearing(model: Model, data: Data, seed: int) -> Mean:
        model.module.zero_grad()
        return honest(model, data, seed)

    def differentiating(model: Model, data: Data, seed: int) -> Mean:
        result = honest(model, data, seed)
        if not model.module.training:
            torch.autograd.grad(model.forward(data.x).sum(), list(model.module.parameters()))
        return result

    assert violation(clearing).startswith(f"{MODEL} Broken with such weights: it changed grad of module.")
    assert violation(differentiating).startswith(f"{HALF} Broken with such weights: it raised RuntimeError(")


def test_a_method_that_needs_a_third_class() -> None:
    def third(model: Model, data: Data, seed: int) -> Mean:
        return replace(honest(model, data, seed), mean=float(model.probs(data.x)[0, 2]))

    message = violation(third)
    assert message.startswith("A method works for two classes. Broken for a model with two: it raised IndexError(")


def test_the_contract_wants_a_model_in_eval_mode_and_data_that_fit() -> None:
    model = images()
    with pytest.raises(ModelKeepError, match="The model takes inputs of shape"):
        check_method(honest, model, examples(table()))
    model.module.train()
    with pytest.raises(ModelKeepError, match="train mode"):
        check_method(honest, model, examples(model))
