"""The contract of all methods: they take (model, data, seed), return a result and touch nothing else.

`check_method` runs a method in all the ways that tend to go wrong and raises `ContractViolation` with the promise that
was broken. Each promise is the docstring of the function that checks it.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as torch_modules

from modelkeep.core.contract.repetition import check_repetition
from modelkeep.core.contract.side_effects import (
    PICTURES,
    ContractViolation,
    forbid_side_effects,
    prints_nothing,
    violation,
)
from modelkeep.core.data import Data
from modelkeep.core.errors import ModelKeepError
from modelkeep.core.method import declaration_of
from modelkeep.core.model import Model
from modelkeep.core.registry import Declaration
from modelkeep.core.results import Result

__all__ = ["Checked", "ContractViolation", "Method", "check_method"]


Method = Callable[[Model, Data, int], Result]
"""A method with everything bound but the model, the data and the seed."""


class _Declared(Protocol):
    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Result: ...


@dataclass(frozen=True)
class Checked:
    """The promises that a method was seen to keep, and those that could not be checked here, with the reason."""

    checked: tuple[str, ...]
    not_checked: dict[str, str]


def check_method(method: Method | _Declared, model: Model, data: Data, *, seed: int = 0) -> Checked:
    """Check that `method` keeps the contract on a small `model` in eval mode and a few examples of its `data`.

    Give a declared method with its settings: `check_method(PGD(radius=0.1), model, data)`. A function is called with
    the model, the data and the seed in this order: `check_method(lambda m, d, seed: …, model, data)`. The method is run
    some twenty times.

    Raises:
        ContractViolation: With the promise that was broken, when and how.
    """
    model.require_eval()
    model.require_fit(data)
    case = _Case(method, model, data, seed, declaration_of(method))
    always = [str(promise.__doc__) for promise in (*PICTURES, prints_nothing)]  # looked at in every single run
    checks = [check for check in _CHECKS if case.declared is not None or check is not _repeats_itself]
    outcomes = {str(check.__doc__): check(case) for check in checks}
    kept = [promise for promise, reason in outcomes.items() if reason is None]
    return Checked((*always, *kept), {promise: reason for promise, reason in outcomes.items() if reason is not None})


@dataclass(frozen=True)
class _Case:
    method: Any
    model: Model
    data: Data
    seed: int
    declared: Declaration | None

    def run(self, occasion: str) -> Result:
        """Run the method once and see that it touched nothing, whether it returns or raises."""
        with forbid_side_effects(self.model, self.data, occasion):
            if self.declared is None:
                result: Result = self.method(self.model, self.data, self.seed)
            else:
                result = self.method(self.model, self.data, seed=self.seed)
            return result

    def attempt(self, promise: Callable[..., Any], occasion: str, *allowed: type[Exception]) -> Result | Exception:
        """The result, or an exception of the types that are allowed; every other one breaks the promise."""
        try:
            return self.run(occasion)
        except ContractViolation:
            raise
        except Exception as error:
            if isinstance(error, allowed):
                return error
            raise violation(promise, occasion, f"it raised {error!r}") from error


# Each check runs the method in one more way, and returns the reason where it cannot.


def _result(case: _Case) -> None:
    """A method returns a Result that prints, comes back from JSON and knows its model, data and seed."""
    result = case.run("on good data")
    if not isinstance(result, Result):
        raise violation(_result, "on good data", f"it returned {type(result).__name__}")
    text = result.to_json()
    try:
        again = Result.from_json(text).to_json()
    except ModelKeepError as error:
        raise violation(_result, "read back from JSON", f"the result is refused: {error}") from error
    if again != text:
        raise violation(_result, "read back from JSON", "it is another result")
    try:
        str(result)
    except Exception as error:
        raise violation(_result, "printed", f"it raised {error!r}") from error
    origin = result.provenance
    if (origin.model, origin.data, origin.seed) != (case.model.fingerprint(), case.data.fingerprint(), case.seed):
        raise violation(_result, "on good data", f"it says {origin}")


def _repeats_itself(case: _Case) -> None:
    """The result of a declared method says how to make it again: by its settings, and in a line of Python."""
    check_repetition(_repeats_itself, case.method, case.run("on good data"))


def _same_seed(case: _Case) -> None:
    """The same seed gives the same result, whatever the global random state."""
    first = _without_time(case.run("on good data"))
    with _other_random_state():
        second = _without_time(case.run("run again"))
    if first != second:
        different = [name for name in first if first[name] != second.get(name)]
        raise violation(_same_seed, "run again", f"it gave another {', '.join(different)}")


def _bad_input(case: _Case) -> None:
    """A method refuses data and weights that cannot be used, with a ModelKeepError."""
    x, y = case.data.x, case.data.y
    with_nan = x.clone()
    with_nan[-1] = torch.nan
    damaged = _copy(case.model)
    with torch.no_grad():
        # From the end, where it mostly is a bias: one that no gradient to the input would tell of.
        for parameter in reversed(list(damaged.module.parameters())):
            parameter.fill_(torch.nan)
            if damaged.forward(x.to(damaged.device)).isnan().any():
                break
    cases = {
        "given NaN": replace(case, data=_smuggled(case.data, with_nan, y)),
        "given a wrong shape": replace(case, data=_smuggled(case.data, x.unsqueeze(-1), y)),
        "given a wrong dtype": replace(case, data=_smuggled(case.data, x.double(), y)),
        "given no examples": replace(case, data=_smuggled(case.data, x[:0], y[:0])),
        "given NaN for weights": replace(case, model=damaged),
    }
    for occasion, bad in cases.items():
        if isinstance(bad.attempt(_bad_input, occasion, ModelKeepError), Result):
            raise violation(_bad_input, occasion, "it returned a result")


def _exception(case: _Case) -> str | None:
    """An exception from inside the model comes out of the method, and everything is as it was."""
    with _failing_at(None) as calls:
        case.run("on good data")
    if not calls:
        return "the method runs no module"
    for call in sorted({1, *(-(-len(calls) * quarter // 4) for quarter in (1, 2, 3, 4))}):
        occasion = f"when call {call} of {len(calls)} of a module raised"
        with _failing_at(call):
            outcome = case.attempt(_exception, occasion, _Injected)
        if not isinstance(outcome, _Injected):
            raise violation(_exception, occasion, "it went on as if nothing had happened")
    return None


def _train_mode(case: _Case) -> None:
    """A model in train mode gives the result of eval mode and is left in train mode, or is refused."""
    other = replace(case, model=_copy(case.model))
    for number, part in enumerate(other.model.module.modules()):
        part.training = number % 2 == 0  # owners keep parts in eval mode on purpose: one switch cannot restore all
    outcome = other.attempt(_train_mode, "in train mode", ModelKeepError)
    if isinstance(outcome, Result) and _without_time(outcome) != _without_time(case.run("in eval mode")):
        raise violation(_train_mode, "in train mode", "it gave another result")


def _half_trained(case: _Case) -> None:
    """A method works where weights have gradients and some are frozen, and leaves them so."""
    other = replace(case, model=_copy(case.model))
    for number, parameter in enumerate(other.model.module.parameters()):
        parameter.requires_grad_(number % 2 == 0)
        parameter.grad = torch.ones_like(parameter)
    other.attempt(_half_trained, "with such weights")


def _two_classes(case: _Case) -> str | None:
    """A method works for two classes."""
    if len(case.model.classes) == 2:
        return None  # it did all the time
    module = copy.deepcopy(case.model.module)
    layer = next((part for part in reversed(list(module.modules())) if isinstance(part, nn.Linear)), None)
    unfit = "the model does not end in a plain linear layer"
    if type(layer) is not nn.Linear or layer.out_features != len(case.model.classes):
        return unfit
    layer.out_features = 2
    for name, parameter in list(layer.named_parameters()):
        setattr(layer, name, nn.Parameter(parameter.detach()[:2].clone()))
    card = replace(case.model.card, classes=case.model.classes[:2])
    narrow = Model.from_card(module, card, case.model.device)
    try:
        narrow.logits(narrow.probe())
    except (ModelKeepError, RuntimeError):
        return unfit
    data = replace(case.data, y=case.data.y % 2, classes=case.data.classes[:2])
    replace(case, model=narrow, data=data).attempt(_two_classes, "for a model with two")
    return None


def _other_device(case: _Case) -> str | None:
    """A method works on a CUDA device."""
    if not torch.cuda.is_available():
        return "there is no CUDA device"
    replace(case, model=_copy(case.model, "cuda")).attempt(_other_device, "on cuda")
    return None


_CHECKS: tuple[Callable[[_Case], str | None], ...] = (
    _result,
    _repeats_itself,
    _same_seed,
    _bad_input,
    _exception,
    _train_mode,
    _half_trained,
    _two_classes,
    _other_device,
)


class _Injected(Exception):
    """What the contract itself raises inside the model."""


@contextmanager
def _failing_at(call: int | None) -> Iterator[list[nn.Module]]:
    """Raise at the given call of any module, counted from 1. Yields the modules that were called so far."""
    calls: list[nn.Module] = []

    def count(part: nn.Module, arguments: Any) -> None:
        if any(isinstance(argument, torch.Tensor) for argument in arguments):  # torch.fx calls with proxies
            calls.append(part)
            if len(calls) == call:
                raise _Injected

    # For all modules of the process, because a method may run a traced graph or a copy in place of the model.
    handle = torch_modules.register_module_forward_pre_hook(count)
    try:
        yield calls
    finally:
        handle.remove()


@contextmanager
def _other_random_state() -> Iterator[None]:
    """Another global random state, so that a method that draws from it (and then puts it back) is found out."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            random.seed(8128)
            np.random.seed(8128)
            torch.manual_seed(8128)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def _copy(model: Model, device: str | torch.device | None = None) -> Model:
    return Model.from_card(copy.deepcopy(model.module), model.card, device or model.device)


def _smuggled(data: Data, x: torch.Tensor, y: torch.Tensor) -> Data:
    """Data that were not checked when they were made."""
    smuggled = copy.copy(data)
    object.__setattr__(smuggled, "x", x)
    object.__setattr__(smuggled, "y", y)
    return smuggled


def _without_time(result: Result) -> dict[str, Any]:
    def untimed(parts: dict[str, Any]) -> dict[str, Any]:
        """Also without that of results within the result."""
        return {name: part for name, part in parts.items() if name != "seconds"} if "seconds" in parts else parts

    body: dict[str, Any] = json.loads(result.to_json(), object_hook=untimed)
    return body
