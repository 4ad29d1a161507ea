"""The parties' shares of a pass, put together by hand in one process, are the pass of the whole network."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from govern.meeting import Meeting, meeting
from modelkeep.core.errors import WireError
from modelkeep.govern.passes import Pass
from modelkeep.govern.piece.computation import Computation, make_route
from modelkeep.govern.piece.files import read_piece
from modelkeep.govern.piece.held_pieces import HeldPieces
from modelkeep.govern.piece.payload import Payload
from modelkeep.training import SGD, Recipe
from modelkeep.training.batches import derive_seed, part_seed

NAMES = ("alice", "bob", "carol")


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Meeting:
    recipe = Recipe(steps=5, batch_size=10, optimizer=SGD(), learning_rate=0.1, micro_batches=3)
    return meeting(
        tmp_path_factory.mktemp("computation"),
        {},
        "govern.networks:digit_network",
        "pictures",
        ["1", "5", "7"],
        ["alice", "bob", "carol", "bob"],
        "carol",
        recipe=recipe,
    )


def holdings(split: Meeting) -> dict[str, HeldPieces]:
    read = {name: read_piece(folder.piece, split.agreement, name) for name, folder in split.folders.items()}
    return {name: HeldPieces(split.agreement, name, tensors) for name, tensors in read.items()}


def a_pass(split: Meeting, step: int = 0) -> Pass:
    agreement = split.agreement
    material = (agreement.data.fingerprint, agreement.labels.fingerprint)
    return Pass(agreement.fingerprint, step, "train", "alice", "alice", "carol", step, *material, 10, parts=3)


def begin(split: Meeting, of: Pass, holding: HeldPieces) -> Computation:
    way = make_route(split.agreement.holders, of.source, of.sink)
    x = split.data.x if holding.party == of.source else None
    return Computation(of, way, holding, x, split.data.y if holding.party == of.sink else None)


@settings(max_examples=10)
@given(st.permutations(range(3)), st.integers(0, 3))
def test_gradients_are_those_of_the_whole_network(split: Meeting, order: list[int], step: int) -> None:
    of, held = a_pass(split, step), holdings(split)
    for holding in held.values():
        holding.step = step
    shares = {name: begin(split, of, holding) for name, holding in held.items()}
    way = next(iter(shares.values())).route
    for part in order:
        payload: Payload | None = None
        for number, leg in enumerate(way):
            payload = shares[leg.holder].forward(number, part, payload)
        for number in reversed(range(len(way) - 1)):
            assert payload is not None
            payload = shares[way[number].holder].backward(number, part, payload)
    assert all(share.done for share in shares.values())

    torch.manual_seed(0)
    model = split.agreement.build()
    model.module.load_state_dict({k: v for each in holdings(split).values() for k, v in each.tensors().items()})
    model.module.train()
    index = held["alice"].batches.index(step)
    loss = 0.0
    for part in order:
        rows = index.tensor_split(3)[part]
        torch.manual_seed(part_seed(derive_seed(split.agreement.seed, "modules", 0), step, part))
        share = cross_entropy(model.module(split.data.x[rows]), split.data.y[rows]) * (len(rows) / 10)
        torch.autograd.backward(share)
        loss += share.item()
    wanted = {name: parameter.grad for name, parameter in model.module.named_parameters()}
    found = {n: p.grad for h in held.values() for piece in h.pieces.values() for n, p in piece.parameters.items()}
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-7)
    assert shares["carol"].metrics["loss"] == pytest.approx(loss)


def test_each_message_is_due_once(split: Meeting) -> None:
    of = a_pass(split)
    held = holdings(split)
    alice, bob = begin(split, of, held["alice"]), begin(split, of, held["bob"])
    assert not alice.due("bob", "gradients", 0, 1)
    first = alice.forward(0, 1)
    assert first is not None
    assert alice.due("bob", "gradients", 0, 1)
    assert not alice.due("bob", "gradients", 0, 3)
    assert bob.due("alice", "activations", 1, 1)
    bob.forward(1, 1, first)
    assert not bob.due("alice", "activations", 1, 1)
    assert bob.due("carol", "gradients", 1, 1)
    assert bob.due("carol", "activations", 3, 1)  # Bob's other stage
    assert not bob.due("bob", "activations", 2, 1)  # Carol's
    assert not bob.done


def test_gradients_that_do_not_fit_are_refused_before_anything_changes(split: Meeting) -> None:
    alice = begin(split, a_pass(split), holdings(split)["alice"])
    sent = alice.forward(0, 0)
    assert sent is not None
    (tensor,) = sent.tensors
    for wrong in ((), (tensor, tensor), (tensor[:1],), (tensor.double(),), (tensor.long(),), (5,), ("x",)):
        with pytest.raises(WireError, match="gradient"):
            alice.require_fit("gradients", 0, 0, Payload(wrong), "They")
    alice.require_fit("gradients", 0, 0, Payload((torch.ones_like(tensor),)), "They")
    alice.require_fit("gradients", 0, 0, Payload((None,)), "They")
    assert alice.due("bob", "gradients", 0, 0)


@pytest.mark.parametrize("where", ["gradient", "statistics"])
def test_finite_numbers_that_overflow_make_no_update(where: str, split: Meeting) -> None:
    holding = holdings(split)["alice"]
    alice = begin(split, a_pass(split), holding)
    sent = alice.forward(0, 0)
    assert sent is not None
    size = 3e38 if where == "gradient" else 1.0
    alice.backward(0, 0, Payload((torch.full_like(sent.tensors[0], size),)))
    if where == "statistics":
        holding.require_finite("It")
        next(b for b in holding.pieces[0].buffers.values() if b.is_floating_point()).fill_(float("inf"))
    with pytest.raises(WireError, match="It would make NaN or infinity of weights that 'alice' holds"):
        holding.require_finite("It")
    holding.forget_gradients()


def test_numbers_whose_norm_overflows_are_finite(split: Meeting) -> None:
    holding = holdings(split)["alice"]
    for parameter in holding.parameters:
        parameter.grad = torch.full_like(parameter, 1e30)
    holding.require_finite("It")


def test_party_without_pieces_has_nothing_to_go_wrong(tmp_path: Path) -> None:
    labels = ["govern.networks:digit_network", "pictures", ["3"], ["alice", "bob"], "carol"]
    split = meeting(tmp_path, {}, *labels)  # type: ignore[arg-type]
    holding = holdings(split)["carol"]
    holding.require_finite("It")
    holding.update()
    assert (holding.step, holding.tensors()) == (1, {})


holder_names = st.sampled_from(("alice", "bob", "carol"))


@given(st.lists(holder_names, min_size=1, max_size=6), holder_names, holder_names)
def test_route_leads_through_all_pieces_in_order(holders: list[str], source: str, sink: str) -> None:
    route = make_route(holders, source, sink)
    assert [piece for stage in route for piece in stage.pieces] == list(range(len(holders)))
    assert all(holders[piece] == stage.holder for stage in route for piece in stage.pieces)
    assert all(one.holder != other.holder for one, other in pairwise(route))
    assert [stage.source for stage in route] == [True] + [False] * (len(route) - 1)
    assert [stage.sink for stage in route] == [False] * (len(route) - 1) + [True]
    assert (route[0].holder, route[-1].holder) == (source, sink)
