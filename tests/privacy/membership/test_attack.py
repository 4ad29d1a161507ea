"""Every membership attack, from the registry: it finds a leak, finds none where there is none, and touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from core.contract.little import examples, images, table
from modelkeep import Data, Model, ModelKeepError, Result
from modelkeep.core.contract import check_method
from modelkeep.core.registry import Declaration, declarations
from modelkeep.privacy import Knowledge, Membership, MembershipAttack
from modelkeep.privacy.membership.attack import log_odds, probabilities
from modelkeep.privacy.shadows import join
from modelkeep.training import Recipe
from privacy.little_world import World, gaussian_records, network

ATTACKS = declarations("membership")
WITHOUT_LABELS = {"entropy"}  # it does not look at the label, and hardly sees who was learned by heart


# Fewer networks than by default.
QUICK: dict[str, dict[str, Any]] = {
    "bayesian-wb": {"proxies": 3},
    "nn-wb": {"slices": "input", "shadows": 4, "points": 3},
    "shadow-bb": {"shadows": 4},
    "quantile": {"epochs": 10},
}


# The white-box attacks as they are on LeNet: several places, and widths that are chosen on shadows apart.
SEVERAL_PLACES: dict[str, dict[str, Any]] = {
    "bayesian-wb": {"slices": "input,1", "proxies": 1, "shadows": 2},
    "nn-wb": {"slices": "input,1", "shadows": 2, "validation": 2, "points": 2, "records": 80},
}


def make(declared: Declaration) -> MembershipAttack:
    attack = declared.load()(**QUICK.get(declared.name, {}))
    assert isinstance(attack, MembershipAttack)
    return attack


@pytest.mark.parametrize("name", ATTACKS)
def test_a_network_that_learned_by_heart_gives_its_members_away(name: str, world: World) -> None:
    found = make(ATTACKS[name])(world.model, world.members, world.non_members, world.knowledge, seed=0)
    assert (found.auc.value if name in WITHOUT_LABELS else found.auc.low) > 0.5, found
    assert found.advantage.value > 0
    assert found.provenance.method == f"membership/{name}"
    assert found.command.endswith(" --seed 0")
    assert f" --method {name}" in found.command


def strangers(world: World, draw: int) -> tuple[Data, Data]:
    """Records that the model never saw: to it, all data are other data."""
    return gaussian_records(80, seed=10 + 2 * draw), gaussian_records(80, seed=11 + 2 * draw)


def mixed(world: World, draw: int) -> tuple[Data, Data]:
    """ "Members" drawn at random from a pile of members and others."""
    pile = join([world.members, world.non_members])
    order = torch.randperm(160, generator=torch.Generator().manual_seed(draw))
    return pile.take(order[:80]), pile.take(order[80:])


@pytest.mark.parametrize("control", [strangers, mixed])
@pytest.mark.parametrize("name", ATTACKS)
def test_where_nothing_is_to_be_found_nothing_is_found(
    name: str, control: Callable[[World, int], tuple[Data, Data]], world: World
) -> None:
    """Negative controls. A 95 % interval misses once in twenty times, so the attack is run on a second draw then."""

    def finds(draw: int) -> bool:
        found = make(ATTACKS[name])(world.model, *control(world, draw), world.knowledge, seed=0)
        return found.advantage.excludes(0) or found.auc.excludes(0.5)

    assert not (finds(0) and finds(1))


@pytest.mark.parametrize("control", [strangers, mixed])
@pytest.mark.parametrize("name", SEVERAL_PLACES)
def test_several_places_find_nothing_either_where_nothing_is_to_be_found(
    name: str, control: Callable[[World, int], tuple[Data, Data]], world: World
) -> None:
    attack = ATTACKS[name].load()(**SEVERAL_PLACES[name])

    def finds(draw: int) -> bool:
        found = attack(world.model, *control(world, draw), world.knowledge, seed=0)
        return bool(found.advantage.excludes(0) or found.auc.excludes(0.5))

    assert not (finds(0) and finds(1))


def cheap(declared: Declaration, model: Model, data: Data, seed: int) -> Result:
    kind = declared.load()
    found: Membership = kind(**kind.cheap)(model, data, data, Knowledge(data, Recipe(steps=2)), seed=seed)
    return found


@pytest.mark.parametrize("make_model", [images, table])
@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_keeps_the_contract(name: str, make_model: Callable[[], Model]) -> None:
    model = make_model()
    report = check_method(lambda m, d, seed: cheap(ATTACKS[name], m, d, seed), model, examples(model, 8))
    assert set(report.not_checked.values()) <= {"there is no CUDA device"}


def test_the_order_of_the_records_does_not_matter_to_the_result(world: World) -> None:
    attack = make(ATTACKS["loss"])
    found = attack(world.model, world.members, world.non_members, world.knowledge, seed=0)
    backwards = world.members.take(torch.arange(80).flip(0))
    again = attack(world.model, backwards, world.non_members, world.knowledge, seed=0)
    assert torch.equal(found.members, again.members.flip(0))
    assert torch.equal(found.non_members, again.non_members)


def test_shadows_without_a_recipe_are_refused(world: World) -> None:
    with pytest.raises(ModelKeepError, match="The attack 'lira' trains networks as the target was trained"):
        make(ATTACKS["lira"])(world.model, world.members, world.non_members, Knowledge(world.knowledge.hold_out))


def test_shadows_are_trained_once_for_several_attacks(world: World) -> None:
    knowledge, held = world.knowledge, world.knowledge.hold_out
    first = knowledge.shadows("lira", world.model, held, 2, 5)
    assert knowledge.shadows("rmia", world.model, held, 2, 5) is first
    assert knowledge.shadows("rmia", world.model, held, 2, 6) is not first


def test_log_odds_keep_their_digits_where_the_model_is_certain() -> None:
    logits = torch.tensor([[30.0, 0.0, -1.0], [0.0, 3.0, 1.0]], dtype=torch.float64)
    y = torch.tensor([0, 1])
    wanted = [30 - torch.tensor([0.0, -1.0]).double().logsumexp(0), 3 - torch.tensor([0.0, 1.0]).double().logsumexp(0)]
    torch.testing.assert_close(log_odds(logits.softmax(1).float().double(), y), torch.stack(wanted), rtol=1e-6, atol=0)


def test_probabilities_come_batch_by_batch() -> None:
    data = gaussian_records(700, seed=0)
    torch.testing.assert_close(probabilities(network(), data).float(), network().probs(data.x))
