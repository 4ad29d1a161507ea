"""`infer_on_shares` as a user calls it: in one process and, once, in four real ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Model, Result
from modelkeep.core.errors import InputError
from modelkeep.encrypt.shares.inference import SharedInference, infer_on_shares
from modelkeep.encrypt.shares.processes import run_in_processes
from modelkeep.encrypt.shares.programs import InferencePlan, Secrets
from modelkeep.encrypt.shares.reading import read_layers
from modelkeep.encrypt.shares.ring import ShareRing


def make_model() -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    return Model(module, input_shape=(4, 4), classes=3)


def test_the_answer_is_the_models() -> None:
    model, x = make_model(), torch.rand(7, 4, 4)
    found = infer_on_shares(model, x, batch_size=4)
    assert found.largest_error < 1e-4
    assert found.same_labels == 7
    assert float((found.logits - model.logits(x).detach()).abs().max()) == found.largest_error
    assert "bytes per sample" in str(found)
    assert "protects nothing" not in str(found)
    again = Result.from_json(found.to_json())
    assert isinstance(again, SharedInference)
    assert torch.equal(again.logits, found.logits)


def test_four_processes_give_the_same_bits_as_one() -> None:
    model, x = make_model(), torch.rand(5, 4, 4)
    one, four = (infer_on_shares(model, x, in_processes=where, test_seed=3) for where in (False, True))
    assert torch.equal(one.logits, four.logits)
    assert (one.rounds, one.opened, one.revealed, one.dealt) == (four.rounds, four.opened, four.revealed, four.dealt)
    assert four.sent is not None
    assert four.sent > four.opened
    assert "protects nothing" in str(four)


def test_a_process_that_fails_says_why() -> None:
    layers, weights = read_layers(make_model().module)
    wrong = Secrets(weights, torch.full((2, 16), float("nan")))
    with pytest.raises(Exception, match=r"finite numbers below|closed the connection|ended"):
        run_in_processes(InferencePlan(tuple(layers), (2,)), wrong, ShareRing())


def test_bad_calls_are_refused() -> None:
    with pytest.raises(InputError, match="no input"):
        infer_on_shares(make_model(), torch.rand(0, 4, 4))
    with pytest.raises(InputError, match="'batch_size'"):
        infer_on_shares(make_model(), torch.rand(1, 4, 4), batch_size=0)
