"""Certified objectives against their formulas written plainly, on linear models whose constants are known exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from modelkeep import Data, Model
from modelkeep.certify.guarantees import Affinity, RelaxedTopK
from modelkeep.certify.objectives import EMMA, CertifiedObjective, GloRoCrossEntropy, GloRoTrades, LipschitzMargin
from modelkeep.core.errors import InputError
from modelkeep.training import Linear, Recipe, Step, StepDecay, fit
from modelkeep.zoo.architectures import cnn_2c2f

RADIUS = 0.4
FIRST = Step(0, 10, 10)
OBJECTIVES: dict[str, type[CertifiedObjective]] = {
    "cross-entropy": GloRoCrossEntropy,
    "trades": GloRoTrades,
    "emma": EMMA,
    "margin": LipschitzMargin,
}
each_objective = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())


@pytest.fixture
def linear() -> Model:
    """Its K_ij are the distances of the rows of its weight."""
    torch.manual_seed(0)
    return Model(nn.Linear(6, 4).double(), input_shape=(6,), classes=4, bounds=None)


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(9, 6, generator=generator, dtype=torch.float64), torch.arange(9) % 4


def distances(model: Model) -> torch.Tensor:
    weight = model.module.weight
    assert isinstance(weight, torch.Tensor)
    return torch.stack([torch.stack([(a - b).norm() for b in weight]) for a in weight]).detach()


def value(objective: CertifiedObjective, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step = FIRST) -> float:
    found = objective(model, x, y, step)
    loss = found[0] if isinstance(found, tuple) else found
    return float(loss.detach())


def bottoms(model: Model, x: torch.Tensor, k: torch.Tensor) -> list[float]:
    """f_⊥ = max over i ≠ j of f_i + ε K_ij, example by example (A.1)."""
    found = []
    for logits in model.forward(x).detach():
        j = int(logits.argmax())
        found.append(max(float(logits[i] + RADIUS * k[i, j]) for i in range(len(logits)) if i != j))
    return found


def test_cross_entropy_has_one_more_class_that_is_never_right(
    linear: Model, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    x, y = batch
    bottom = torch.tensor(bottoms(linear, x, distances(linear)), dtype=torch.float64)
    expected = cross_entropy(torch.cat([linear.forward(x), bottom[:, None]], dim=1), y)
    assert value(GloRoCrossEntropy(RADIUS), linear, x, y) == pytest.approx(float(expected.detach()), rel=1e-6)


def test_trades_is_the_divergence_of_the_padded_answers(
    linear: Model, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    x, y = batch
    logits = linear.forward(x).detach()
    bottom = torch.tensor(bottoms(linear, x, distances(linear)), dtype=torch.float64)
    p = logits.softmax(dim=1)  # and 0 for ⊥, which adds 0 · log 0 = 0
    q = torch.cat([logits, bottom[:, None]], dim=1).softmax(dim=1)
    divergence = (p * (p / q[:, :-1]).log()).sum(dim=1).mean()
    expected = cross_entropy(logits, y) + 3 * divergence
    assert value(GloRoTrades(RADIUS, weight=3.0), linear, x, y) == pytest.approx(float(expected.detach()), rel=1e-6)
    scheduled = GloRoTrades(RADIUS, weight=Linear(0.0, 6.0))
    assert value(scheduled, linear, x, y, Step(5, 10, 10)) == pytest.approx(float(expected.detach()), rel=1e-6)


def test_margin_training_lets_every_other_class_gain(linear: Model, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, y = batch
    expected = cross_entropy(linear.forward(x) + RADIUS * distances(linear)[y], y)
    assert value(LipschitzMargin(RADIUS), linear, x, y) == pytest.approx(float(expected.detach()), rel=1e-6)


def test_emma_lets_a_class_gain_as_much_as_it_is_behind(
    linear: Model, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    x, y = batch
    k, logits = distances(linear), linear.forward(x).detach()
    moved = logits.clone()
    for n, label in enumerate(y.tolist()):
        for i in range(4):
            if i != label:
                own = float((logits[n, label] - logits[n, i]) / k[label, i])  # certified so far against i
                moved[n, i] += min(max(own, 0.01 * RADIUS), RADIUS) * k[label, i]
    assert value(EMMA(RADIUS), linear, x, y) == pytest.approx(float(cross_entropy(moved, y)), rel=1e-6)


@each_objective
def test_every_loss_pulls_the_constants_down(objective: type[CertifiedObjective]) -> None:
    """At logits that are equal, nothing but the constants can be made better."""
    model = Model(nn.Linear(2, 2, bias=False), input_shape=(2,), classes=2, bounds=None)
    with torch.no_grad():
        model.module.weight.copy_(torch.eye(2))  # type: ignore[operator]
    x, y = torch.tensor([[1e-3, 0.0], [0.0, 1e-3]]), torch.tensor([0, 1])
    found = objective(1.0)(model, x, y, FIRST)
    assert isinstance(found, tuple)
    found[0].backward()  # type: ignore[no-untyped-call]
    (gradient,) = (p.grad for p in model.module.parameters())
    assert gradient is not None
    assert float((gradient * torch.tensor([[1.0, -1.0], [-1.0, 1.0]])).sum()) > 0


@each_objective
def test_where_the_radius_is_0_it_is_plain_cross_entropy(
    objective: type[CertifiedObjective], linear: Model, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    x, y = batch
    warm_up = StepDecay(((0, 0.0), (3, RADIUS)), unit="epoch")
    plain = float(cross_entropy(linear.forward(x), y).detach())
    assert value(objective(warm_up), linear, x, y, Step(2, 10, 1)) == pytest.approx(plain, rel=1e-9)
    assert value(objective(warm_up), linear, x, y, Step(3, 10, 1)) > plain


def test_relaxed_guarantees_cost_no_more_than_the_standard_one(
    linear: Model, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    x, y = batch
    affinity = Affinity([("0", "1"), ("2", "3")], classes=linear.classes)
    for objective in (GloRoCrossEntropy, GloRoTrades):
        standard = value(objective(RADIUS), linear, x, y)
        assert value(objective(RADIUS, guarantee=RelaxedTopK(2)), linear, x, y) < standard
        assert value(objective(RADIUS, guarantee=affinity), linear, x, y) < standard


def test_the_gradient_can_be_kept_to_the_margin(linear: Model, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Footnote 2 of chapter 7: then ⊥ does not pull the prediction down; its value is the same."""
    x, y = batch
    both = [GloRoCrossEntropy(RADIUS, through_top=through) for through in (True, False)]
    assert value(both[0], linear, x, y) == value(both[1], linear, x, y)
    gradients = []
    for objective in both:
        linear.module.zero_grad()
        loss, _ = objective(linear, x, y, FIRST)
        loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in linear.module.parameters() if p.grad is not None]))
    assert not torch.allclose(gradients[0], gradients[1])


@each_objective
@pytest.mark.parametrize("radius", [-0.1, float("nan"), float("inf")], ids=["negative", "nan", "infinite"])
def test_a_radius_that_is_none_is_refused(objective: type[CertifiedObjective], radius: float) -> None:
    with pytest.raises(InputError, match=r"'radius' parameter of .* must be a number of at least 0"):
        objective(radius)


def test_a_weight_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="'weight' parameter of GloRoTrades"):
        GloRoTrades(0.3, weight=-1.0)


def images() -> tuple[Data, Model]:
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(60, 1, 8, 8, generator=generator)
    data = Data(x, (x.mean(dim=(1, 2, 3)) > 0.5).long(), ("dark", "light"))
    torch.manual_seed(0)
    return data, Model(cnn_2c2f((1, 8, 8), 2), input_shape=(1, 8, 8), classes=data.classes)


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.module.state_dict().items()}


def test_a_stopped_training_goes_on_with_the_same_iterates(tmp_path: Path) -> None:
    """The bits at the end are those of a run that was never stopped, because the power iterates are kept."""
    recipe = Recipe(epochs=4, batch_size=20)

    class Stopped(EMMA):
        def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Any:
            if step.number == 7:
                raise KeyboardInterrupt
            return super().__call__(model, x, y, step)

    data, model = images()
    fit(model, data, EMMA(0.1), recipe, seed=0)
    through = weights(model)
    data, model = images()
    with pytest.raises(KeyboardInterrupt):
        fit(model, data, _named(Stopped(0.1)), recipe, seed=0, checkpoint=tmp_path / "run", checkpoint_seconds=0.0)
    data, model = images()
    resumed = EMMA(0.1)
    fit(model, data, resumed, recipe, seed=0, checkpoint=tmp_path / "run")
    assert resumed.state_dict()
    for name, tensor in weights(model).items():
        assert torch.equal(tensor, through[name]), name


def _named(objective: EMMA) -> EMMA:
    """With the name of the objective that it stands for."""
    objective.name = repr(EMMA(objective.radius))  # type: ignore[attr-defined]
    return objective


def test_an_objective_that_was_used_before_starts_anew() -> None:
    objective, recipe = EMMA(0.1), Recipe(epochs=1, batch_size=20)
    ends = []
    for _ in range(2):
        data, model = images()
        fit(model, data, objective, recipe, seed=0)
        ends.append(weights(model))
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
