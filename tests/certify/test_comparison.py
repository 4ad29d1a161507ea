"""What a trace does not show is found by running the network in every way: by batch, by mode, again and again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from certify.networks import Net, model_of
from modelkeep.certify.comparison import BATCHES, MODES, answers, inputs_to_compare
from modelkeep.certify.constants import lipschitz
from modelkeep.certify.gloro import GloRoNet
from modelkeep.core.errors import ModelError


def counted(s: Any, x: torch.Tensor) -> torch.Tensor:
    """Five times as steep from the hundredth call on."""
    s.calls += 1
    made: torch.Tensor = s.inner(x) * (1 if s.calls < 100 else 5)
    return made


def rarely(s: Any, x: torch.Tensor) -> torch.Tensor:
    """A random layer that nearly always does nothing."""
    made: torch.Tensor = s.inner(x) * (5 if float(torch.rand(())) < 1e-6 else 1)
    return made


def listed(s: Any, x: torch.Tensor) -> torch.Tensor:
    s.seen["calls"].append(1)
    made: torch.Tensor = s.inner(x) * (1 if len(s.seen["calls"]) < 100 else 5)
    return made


def set_aside(s: Any, x: torch.Tensor) -> torch.Tensor:
    s.state.data += 1
    made: torch.Tensor = s.inner(x) * 1
    return made


REFUSED: dict[str, tuple[Callable[[Any, torch.Tensor], torch.Tensor], dict[str, Any], str]] = {
    "gradients": (lambda s, x: s.inner(x) * (5 if torch.is_grad_enabled() else 1), {}, "gradients are recorded"),
    "inference": (lambda s, x: s.inner(x) * (5 if torch.is_inference_mode_enabled() else 1), {}, "in inference mode"),
    "tracing": (lambda s, x: s.inner(x) * (1 if torch.fx._symbolic_trace.is_fx_tracing() else 5), {}, "at a batch of"),
    "type of the weights": (
        lambda s, x: s.inner(x) * (5 if s.inner.weight.dtype == torch.float32 else 1),
        {},
        "torch.fx",
    ),
    "counter": (counted, {"calls": 0}, "changes something of its own"),
    "list": (listed, {"seen": {"calls": []}}, "changes something of its own"),
    "iterator": (lambda s, x: s.inner(x) * (1 + next(s.count) // 100), {"count": itertools.count()}, "of its own"),
    "buffer": (set_aside, {"state": torch.zeros(1)}, "changes something of its own"),
    "rarely at random": (rarely, {}, "draws random numbers"),
    "by Python's random": (lambda s, x: s.inner(x) * (5 if random.random() < 1e-6 else 1), {}, "draws random numbers"),
    "own generator": (
        lambda s, x: s.inner(x) * (5 if float(torch.rand((), generator=s.own)) < 1e-6 else 1),
        {"own": torch.Generator()},
        "changes something of its own",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_network_that_is_another_one_in_another_call_is_refused(name: str) -> None:
    function, parts, message = REFUSED[name]
    with pytest.raises(ModelError, match=message):
        GloRoNet(model_of(Net(function, inner=nn.Linear(4, 4), **parts), 4, classes=4), 0.1)


def test_every_batch_and_mode_is_run() -> None:
    model = model_of(nn.Linear(4, 3), 4)
    x = inputs_to_compare(model)
    assert len({tuple(row.tolist()) for row in x}) == max(BATCHES)
    seen = list(answers(model.forward, x))
    assert len(seen) == len(BATCHES) * len(MODES)
    assert {n for _, n, _ in seen} == {1, 2, 3, 5}


class _Cached(nn.Module):
    """Fills a cache in the first run of each size, as positional codes do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.kept = nn.Linear(4, 3), {0: 1.0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.setdefault(1, 1.0)
        made: torch.Tensor = self.inner(x) * self.kept[1]
        return made


def test_a_cache_that_fills_once_is_no_reason() -> None:
    assert lipschitz(model_of(_Cached(), 4)).constant > 0


LARGE = {"large": False}


def by_a_global(s: Any, x: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = s.inner(x) * (5 if LARGE["large"] else 1)
    return made


def test_an_answer_is_compared_where_a_batch_has_a_new_size() -> None:
    """What no check beforehand can see, such as a global that changes later, is seen when it answers."""
    net = GloRoNet(model_of(Net(by_a_global, inner=nn.Linear(4, 4)), 4, classes=4), 0.1)
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    net.predict(x)
    LARGE["large"] = True
    try:
        with pytest.raises(ModelError, match="does not compute what its weights"):
            net.predict(x[:63])
    finally:
        LARGE["large"] = False
