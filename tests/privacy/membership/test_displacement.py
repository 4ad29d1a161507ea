"""nn-wb holds bayesian-wb as a special case, and its network is the convolution of the thesis."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep.privacy import LearnedWhiteBox
from modelkeep.privacy.membership.classifier import member_logit, train_classifier
from modelkeep.privacy.membership.displacement import Displacement
from modelkeep.privacy.membership.local_linear import cut_at, logits_of, train_proxies
from modelkeep.training.batches import derive_seed
from privacy.little_world import RECIPE, World


def test_subtraction_gives_bayesian_wb_with_one_proxy(world: World) -> None:
    few, held = world.members.first(12), world.knowledge.hold_out
    rows, seed = torch.arange(len(held)), 7
    x, sizes = LearnedWhiteBox(points=1).inputs(world.model, ("1",), held, rows, few, RECIPE, seed)
    network = Displacement(sizes, hidden=0, meta=0)
    convolution = network.displacements[0]
    assert isinstance(convolution, nn.Conv1d)
    convolution.weight.data = torch.tensor([[[1.0, -1.0]]])
    logits = network(x)
    (proxy,) = train_proxies(world.model, "1", held, RECIPE, [derive_seed(seed, "proxy", 0)], [rows])
    cutting = world.model.slice("1")
    cut = cut_at(cutting, world.model, few)
    wanted = logits_of(cutting, cut, few.y) - logits_of(proxy, cut, few.y)
    torch.testing.assert_close((logits[:, 1] - logits[:, 0]).double(), wanted, rtol=1e-3, atol=1e-4)


def test_the_displacement_is_the_same_function_of_every_pair() -> None:
    torch.manual_seed(0)
    network, x = Displacement((3,), hidden=5, meta=0), torch.randn(4, 3, 3)
    own = network.displacements[0]

    def displace(pair: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = own(pair[None, None])
        return value.flatten()

    wanted = torch.stack([sum(displace(row[:2, j]) * row[2, j] for j in range(3)) for row in x]).flatten()
    logits = network(x)
    torch.testing.assert_close(logits[:, 1] - logits[:, 0], wanted)


def test_several_places_are_combined_by_a_meta_model(world: World) -> None:
    attack = LearnedWhiteBox(slices="input,1", shadows=4, hidden=4, points=3)
    found = attack(world.model, world.members, world.non_members, world.knowledge)
    assert found.auc.low > 0.5


def test_the_sweep_takes_the_widths_that_are_most_accurate_on_shadows_apart(world: World) -> None:
    attack = LearnedWhiteBox(slices="1", shadows=2, validation=2, points=1, records=40)
    found = attack.score(world.model, world.members, world.knowledge, seed=2)
    shadows = world.knowledge.shadows("by hand", world.model, world.knowledge.hold_out, 4, 2)
    told = [attack.told_by(shadows, i, ("1",), RECIPE, derive_seed(2, "split", i)) for i in range(4)]
    assert all(inside.sum() == 20 and len(x) == 40 for x, inside in told)
    (x0, in0), (x1, in1), (x2, in2), (x3, in3) = told
    best, most = None, -1.0
    for hidden, _ in attack.widths(1):
        size = (x0.shape[2],)
        fitted = train_classifier(
            Displacement(size, hidden, 0), torch.cat([x0, x1]), torch.cat([in0, in1]), 32, derive_seed(2, "nn-wb")
        )
        right = [(member_logit(fitted, x) > 0) == inside for x, inside in ((x2, in2), (x3, in3))]
        accuracy = float(torch.cat(right).double().mean())
        if accuracy > most:
            best, most = fitted, accuracy
    rows = torch.arange(len(world.knowledge.hold_out))
    own, _ = attack.inputs(
        world.model, ("1",), world.knowledge.hold_out, rows, world.members, RECIPE, derive_seed(2, "target")
    )
    assert best is not None
    assert torch.equal(found, member_logit(best, own))


def test_the_sweep_has_every_pair_of_widths_where_there_are_several_places() -> None:
    assert LearnedWhiteBox(hidden=3, meta=5).widths(2) == [(3, 5)]
    assert LearnedWhiteBox(validation=2).widths(2) == [(0, 0), (0, 16), (8, 0), (8, 16)]
    assert LearnedWhiteBox(validation=2).widths(1) == [(0, 0), (8, 0)]


@pytest.mark.parametrize("place", ["input", "0", "1"])
def test_influences_on_the_line_from_zero_are_efficient_at_every_slice(place: str, world: World) -> None:
    """Eq. 8.12: with the bias g(0), the weights times the features sum to g(z), which the network computes itself."""
    few = world.members.first(12)
    x, _ = LearnedWhiteBox(points=400).inputs(
        world.model, (place,), world.knowledge.hold_out, torch.arange(40), few, RECIPE, seed=1
    )
    with torch.no_grad():
        wanted = world.model.forward(few.x).gather(1, few.y[:, None])[:, 0]
    torch.testing.assert_close((x[:, 0] * x[:, 2]).sum(dim=1), wanted, rtol=0.02, atol=0.02)
