"""What other libraries get silently wrong, tried on every attack of ours; and, where they are installed, on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from attack.every_attack import After, as_seen, every_attack, every_attack_by_gradient, named, network, pictures
from attack.peers import peer
from modelkeep import Data, Model, Preprocessing
from modelkeep.attack import Attack
from modelkeep.attack.health import MASKED
from modelkeep.core.errors import ModelKeepError


@every_attack
def test_where_it_fails_the_original_comes_back(attack: Attack) -> None:
    """foolbox's C&W returns black images for these, and calls most of them adversarial."""

    class Sealed(nn.Module):
        """Where the first pixel is bright, and it may not change, nothing else can change the answer."""

        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seal = 100 * (x[:, 0, 0, :1] > 0.5) * torch.eye(3)[0]
            return self.net(x) + seal  # type: ignore[no-any-return]

    model = named(Sealed())
    data = as_seen(model, pictures())
    mask = torch.ones(1, 4, 4, dtype=torch.bool)
    mask[0, 0, 0] = False
    found = replace(attack, mask=mask)(model, data, seed=0)
    sealed = data.x[:, 0, 0, 0] > 0.5
    wanted = found.success if found.target is None else found.success & (found.after != found.before)
    assert 5 < int(sealed.sum()) < 25
    assert wanted[~sealed].any()
    assert not wanted[sealed].any()
    assert torch.equal(found.adversarial[~found.success], data.x[~found.success])
    assert bool((found.distance[~found.success] == 0).all())
    assert torch.equal(model.predict(found.adversarial), found.after)
    if found.target is None:
        assert torch.equal(found.success, found.after != data.y)


@pytest.mark.filterwarnings("ignore")
def test_foolbox_returns_black_images_where_it_fails() -> None:
    foolbox: Any = peer("foolbox")
    model = named(network())
    data = as_seen(model, pictures())
    too_short = foolbox.attacks.L2CarliniWagnerAttack(steps=1, binary_search_steps=1, stepsize=1e-6)
    theirs = foolbox.PyTorchModel(model.module, bounds=(0, 1), device="cpu")
    _, points, said = too_short(theirs, data.x, data.y, epsilons=None)
    assert bool((points == 0).all())
    assert said.any()


@every_attack
def test_pixels_at_their_bounds_move(attack: Attack) -> None:
    """torchattacks' C&W maps 0 and 1 to infinity, from where no gradient leads back."""
    model = named(network())
    data = as_seen(model, pictures().round())
    found = attack(model, data, seed=0)
    changed = found.adversarial != data.x
    assert int(found.success.sum()) > 0
    assert changed[data.x == 0].any()
    assert changed[data.x == 1].any()


@pytest.mark.filterwarnings("ignore")
def test_torchattacks_cannot_move_pixels_at_their_bounds_and_misreads_negative_logits() -> None:
    torchattacks: Any = peer("torchattacks")
    model = named(network())
    black_and_white, grey = as_seen(model, pictures().round()), as_seen(model, pictures())
    stuck = torchattacks.CW(model.module, c=10, steps=60)(black_and_white.x, black_and_white.y)
    assert torch.equal(torch.nan_to_num(stuck, nan=-1).clamp(0, 1), black_and_white.x)
    moved = torchattacks.CW(model.module, c=10, steps=60)(grey.x, grey.y)
    lowered = named(After(model.module, after=lambda logits: logits - 40))
    unmoved = torchattacks.CW(lowered.module, c=10, steps=60)(grey.x, grey.y)
    assert int((model.predict(moved) != grey.y).sum()) > 10
    assert int((lowered.predict(unmoved) != grey.y).sum()) == 0


@every_attack
def test_it_does_not_matter_whether_logits_are_negative(attack: Attack) -> None:
    """torchattacks takes the maximum over logits times zero or one, which is zero where all are negative."""
    net = network()
    data = as_seen(named(net), pictures())
    usual, lowered = (
        attack(named(After(net, after=lambda logits, by=by: logits - by)), data, seed=0)  # type: ignore[misc]
        for by in (0.0, 40.0)
    )
    assert int(usual.success.sum()) > 3
    assert abs(int(usual.success.sum()) - int(lowered.success.sum())) <= 2


@every_attack
def test_train_mode_changes_nothing_and_is_left_on(attack: Attack) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Dropout(0.3), *network(), nn.BatchNorm1d(3), nn.Dropout(0.3))
    model = named(net)
    data = as_seen(model, pictures())
    expected = attack(model, data, seed=0)
    net.train()
    net[1].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = attack(model, data, seed=0)
    assert torch.equal(found.adversarial, expected.adversarial)
    assert found.health == expected.health
    assert net.training
    assert net[0].training
    assert not net[1].training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@every_attack
def test_normalisation_is_applied_once(attack: Attack) -> None:
    net = network()
    by_hand = named(After(net, before=lambda x: (x - 0.5) / 0.25))
    by_card = Model(net, input_shape=(1, 4, 4), classes=3, preprocessing=Preprocessing((0.5,), (0.25,)))
    data = as_seen(by_hand, pictures())
    ours, theirs = (attack(model, data, seed=0) for model in (by_card, by_hand))
    assert torch.equal(by_card.predict(ours.adversarial), ours.after)
    assert int((ours.success != theirs.success).sum()) <= 1
    same = ours.success & theirs.success
    assert int(same.sum()) > 3
    assert float((ours.distance - theirs.distance)[same].abs().median()) < 1e-3


@pytest.mark.parametrize("classes", [2, 3])
@every_attack
def test_few_classes_are_enough(attack: Attack, classes: int) -> None:
    model = named(network(classes), classes)
    found = attack(model, as_seen(model, pictures()), seed=0)
    assert int(found.success.sum()) > 3


@pytest.mark.filterwarnings("ignore")
def test_the_ensemble_of_torchattacks_breaks_down_with_two_classes() -> None:
    torchattacks: Any = peer("torchattacks")
    model = named(network(2), 2)
    data = as_seen(model, pictures(4))
    with pytest.raises((IndexError, RuntimeError, ValueError)):
        torchattacks.AutoAttack(model.module, eps=1e-3, n_classes=2)(data.x, data.y)


@every_attack_by_gradient
def test_a_model_without_gradients_is_not_called_robust(attack: Attack) -> None:
    model = named(After(network(), before=lambda x: (4 * x).round() / 4))
    found = attack(model, as_seen(model, pictures()), seed=0)
    assert found.success.all() or any(MASKED in note for note in found.health)


@every_attack_by_gradient
def test_a_model_that_is_very_sure_is_not_called_robust(attack: Attack) -> None:
    """Logits times a million: the probabilities are 0 and 1, and the gradient of the cross-entropy is zero."""
    net = network()
    sure = named(After(net, after=lambda logits: 1e6 * logits))
    data = as_seen(named(net), pictures())
    expected = int(attack(named(net), data, seed=0).success.sum())
    found = attack(sure, data, seed=0)
    assert int(found.success.sum()) > 0.7 * expected or any(MASKED in note for note in found.health)


@every_attack
def test_a_random_model_is_called_random(attack: Attack) -> None:
    model = named(After(network(), after=lambda logits: logits + torch.randn_like(logits)))
    found = attack(model, as_seen(model, pictures()), seed=0)
    assert any("the model is random" in note for note in found.health)


@every_attack
def test_nan_is_refused(attack: Attack) -> None:
    net = network()
    data = as_seen(named(net), pictures())
    with torch.no_grad():
        net[3].bias.fill_(torch.nan)  # type: ignore[operator]
    with pytest.raises(ModelKeepError, match="NaN"):
        attack(named(net), data, seed=0)
    with pytest.raises(ModelKeepError, match="NaN"):
        attack(named(network()), Data(torch.full_like(data.x, torch.nan), data.y, data.classes), seed=0)
