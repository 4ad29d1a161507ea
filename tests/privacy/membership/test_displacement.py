"""nn-wb holds bayesian-wb as a special case, and its network is the convolution of the thesis."""

from __future__ import annotations

import torch
from torch import nn

from modelkeep.privacy import LearnedWhiteBox
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
