"""bayesian-wb against algorithm 8.1 by hand, and the efficiency of the influences that it rests on (eq. 8.12)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, ModelKeepError
from modelkeep.privacy import BayesianWhiteBox, Knowledge
from modelkeep.privacy.membership.bayesian import draw_samples
from modelkeep.privacy.membership.classifier import member_logit, train_classifier
from modelkeep.privacy.membership.local_linear import (
    at_zero,
    cut_at,
    last_place,
    local_weights,
    train_proxies,
    train_proxies_at,
)
from modelkeep.training import cross_entropy, fit
from modelkeep.training.batches import derive_seed
from privacy.little_world import FEATURES, RECIPE, World, gaussian_records


def linear() -> Model:
    return Model(nn.Linear(FEATURES, 2), input_shape=(FEATURES,), classes=("no", "yes"), bounds=None)


def test_of_a_linear_model_it_is_the_difference_of_the_weights() -> None:
    """Algorithm 8.1: w = Ŵ - W̃ and b = b̂ - b̃, with the mean over proxies that learned the same records alone."""
    model, members, hold_out = linear(), gaussian_records(60, 0), gaussian_records(100, 1)
    fit(model, members, cross_entropy, RECIPE, seed=0)
    attack = BayesianWhiteBox(proxies=2)
    found = attack.score(model, members, Knowledge(hold_out, RECIPE), seed=3)
    seeds, rows = draw_samples(100, 2, derive_seed(3, "target"), 50)
    weights, biases = [], []
    for seed, chosen in zip(seeds, rows, strict=True):
        proxy = train_by_hand(hold_out.take(chosen), seed)
        weights.append(proxy.weight.detach())
        biases.append(proxy.bias.detach())
    assert isinstance(model.module, nn.Linear)
    w = model.module.weight.detach() - torch.stack(weights).mean(dim=0)
    b = model.module.bias.detach() - torch.stack(biases).mean(dim=0)
    wanted = (w[members.y] * members.x).sum(dim=1) + b[members.y]
    torch.testing.assert_close(found.float(), wanted, rtol=1e-4, atol=1e-4)


def train_by_hand(data: Data, seed: int) -> nn.Linear:
    proxy = linear()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        assert isinstance(proxy.module, nn.Linear)
        proxy.module.reset_parameters()
    fit(proxy, data, cross_entropy, RECIPE, seed=seed)
    return proxy.module


@pytest.mark.parametrize("place", ["input", "0", "1"])
def test_the_evidence_sums_to_the_score_at_every_slice(place: str, world: World) -> None:
    attack, few = BayesianWhiteBox(slices=place, proxies=2), world.members.first(10)
    score = attack.score(world.model, few, world.knowledge, seed=0)
    evidence = attack.evidence(world.model, few, world.knowledge, points=400, seed=0)
    assert evidence.shape == (10, FEATURES if place == "input" else 2 * FEATURES)
    held = world.knowledge.hold_out
    samples = draw_samples(len(held), 2, derive_seed(0, "target"), len(held) // 2)
    proxies = train_proxies(world.model, place, held, RECIPE, *samples)
    cutting = world.model.slice(place)
    cut = cut_at(cutting, world.model, few)
    bias = at_zero(cutting, cut, few.y) - torch.stack([at_zero(each, cut, few.y) for each in proxies]).mean(dim=0)
    torch.testing.assert_close(evidence.double().sum(dim=1) + bias, score, rtol=0.02, atol=0.05)


def test_the_weights_of_a_linear_part_need_one_point(world: World) -> None:
    assert last_place(world.model) == "1"
    cutting = world.model.slice("1")
    cut = cut_at(cutting, world.model, world.members)
    found = local_weights(cutting, cut, world.members.y, points=1)
    torch.testing.assert_close(found, world.model.module[2].weight.detach()[world.members.y])  # type: ignore[index]


def test_a_meta_model_combines_several_slices(world: World) -> None:
    attack = BayesianWhiteBox(slices="input, 1", proxies=2, shadows=4)
    found = attack(world.model, world.members, world.non_members, world.knowledge)
    assert found.auc.low > 0.5


def test_the_meta_model_learns_from_the_confidences_at_each_slice(world: World) -> None:
    """Section 8.3.2 by hand: shadows on S¹, proxies on S⁰, the sigmoids of both slices' displacements, who was in."""
    attack, held = BayesianWhiteBox(slices="input,1", proxies=1, shadows=2), world.knowledge.hold_out
    found = attack.score(world.model, world.members, world.knowledge, seed=4)

    def confidences(model: Model, place: str, learned: Data, records: Data, seed: int) -> torch.Tensor:
        (proxy,) = train_proxies(model, place, learned, RECIPE, *draw_samples(len(learned), 1, seed, len(held) // 2))
        with torch.no_grad():
            gap = model.forward(records.x) - proxy.g(model.slice(place).h(records.x))
        return gap.gather(1, records.y[:, None]).sigmoid()

    def both(model: Model, learned: Data, records: Data, seed: int) -> torch.Tensor:
        return torch.cat([confidences(model, place, learned, records, seed) for place in ("input", "1")], dim=1)

    shadows = world.knowledge.shadows("by hand", world.model, held, 2, 4)
    told = []
    for i, shadow in enumerate(shadows.models):
        outside = held.take(torch.nonzero(~shadows.inside[i]).flatten())
        assert len(outside) == len(held) // 2  # a proxy learns as many as the target's do
        told.append(both(shadow, outside, held, derive_seed(4, "meta", i)))
    meta = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    fitted = train_classifier(meta, torch.cat(told), shadows.inside.flatten(), 32, derive_seed(4, "meta"))
    own = both(world.model, held, world.members, derive_seed(4, "target"))
    torch.testing.assert_close(found, member_logit(fitted, own), rtol=1e-3, atol=1e-3)


def test_places_with_the_same_weights_above_share_their_proxies(world: World) -> None:
    """Nothing is learned between a layer and its ReLU, so there is one proxy, which is cut at both places."""
    held, few = world.knowledge.hold_out, world.members.first(5)
    rows = [torch.arange(len(held))]
    before, after, below = train_proxies_at(world.model, ("0", "1", "input"), held, RECIPE, [[3]] * 3, rows)
    (alone,) = train_proxies(world.model, "1", held, RECIPE, [3], rows)
    with torch.no_grad():
        cuts = [world.model.slice(place).h(few.x) for place in ("0", "1", "input")]
        one, two, other = (each[0].g(cut) for each, cut in zip((before, after, below), cuts, strict=True))
        assert torch.equal(one, two)
        assert torch.equal(two, alone.g(cuts[1]))
        assert not torch.allclose(one, other)


def test_a_network_without_weights_is_refused(world: World) -> None:
    model = Model(nn.Identity(), input_shape=(2,), classes=2, bounds=None)
    with pytest.raises(ModelKeepError, match="no weights"):
        last_place(model)
