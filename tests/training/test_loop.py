"""The loop: the same bits as a loop written by hand, closed forms, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from modelkeep import Data, Model, Result
from modelkeep.core.errors import InputError, TrainingError
from modelkeep.training import (
    SGD,
    Adam,
    EarlyStop,
    Fitted,
    Linear,
    Recipe,
    RMSProp,
    Step,
    cross_entropy,
    evaluate,
    fit,
)
from modelkeep.training.batches import Batches

Make = Callable[[], Model]


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.module.state_dict().items()}


def same(one: Model, other: Model) -> bool:
    return all(torch.equal(tensor, weights(other)[name]) for name, tensor in weights(one).items())


OPTIMIZERS: list[tuple[Any, Callable[[Any], torch.optim.Optimizer]]] = [
    (SGD(), lambda p: torch.optim.SGD(p, lr=0.1)),
    (SGD(0.9, weight_decay=1e-2), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-2)),
    (SGD(0.9, nesterov=True), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
    (Adam(eps=1e-7, weight_decay=1e-2), lambda p: torch.optim.Adam(p, lr=0.1, eps=1e-7, weight_decay=1e-2)),
    (Adam(weight_decay=0.1, decoupled=True), lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1)),
    (RMSProp(0.95, eps=0.1), lambda p: torch.optim.RMSprop(p, lr=0.1, alpha=0.95, eps=0.1)),
]


@pytest.mark.parametrize(("chosen", "by_hand"), OPTIMIZERS, ids=[repr(chosen) for chosen, _ in OPTIMIZERS])
def test_the_same_bits_as_a_loop_written_by_hand(
    small_cnn: Model, shapes: Data, chosen: Any, by_hand: Callable[[Any], torch.optim.Optimizer]
) -> None:
    data = Data(shapes.x, shapes.y, small_cnn.classes)
    before = weights(small_cnn)
    recipe = Recipe(epochs=2, batch_size=16, optimizer=chosen, learning_rate=Linear(0.1, 0.0))
    fitted = fit(small_cnn, data, cross_entropy, recipe, seed=7)
    trained = weights(small_cnn)

    small_cnn.module.load_state_dict(before)
    optimizer, losses = by_hand(small_cnn.module.parameters()), []
    for epoch in range(2):
        order = Batches(len(data), recipe, 7)
        for number in range(epoch * 6, epoch * 6 + 6):
            optimizer.param_groups[0]["lr"] = 0.1 + (0.0 - 0.1) * (number / 12)
            index = order.index(number)
            loss = functional.cross_entropy(small_cnn.module(data.x[index]), data.y[index])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
    assert all(torch.equal(tensor, trained[name]) for name, tensor in weights(small_cnn).items())
    assert [row.train_loss for row in fitted.history] == [sum(losses[:6]) / 6, sum(losses[6:]) / 6]
    assert [row.step for row in fitted.history] == [6, 12]


class Point(nn.Module):
    """A 'network' whose logits are its weights, whatever the input: the objective is a function of the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.at = nn.Parameter(torch.tensor([4.0, -2.0], dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.at.expand(len(x), 2)


def bowl(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
    """½ (a² + 10 b²) at the weights (a, b)."""
    return (model.forward(x)[0].square() * torch.tensor([1.0, 10.0])).sum() / 2


@pytest.fixture
def point() -> Model:
    return Model(Point(), input_shape=(1,), classes=2)


@pytest.fixture
def dot() -> Data:
    return Data(torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64), ("0", "1"))


def test_gradient_descent_on_a_quadratic_is_a_power(point: Model, dot: Data) -> None:
    # x ← (1 - rate · curvature) x, so after n steps x₀ (1 - rate · curvature)ⁿ.
    fit(point, dot, bowl, Recipe(steps=20, optimizer=SGD(), learning_rate=0.05), seed=0)
    found = next(point.module.parameters()).tolist()
    assert found == pytest.approx([4 * 0.95**20, -2 * 0.5**20], rel=1e-12)


def test_momentum_on_a_quadratic_is_a_matrix_power(point: Model, dot: Data) -> None:
    rate, momentum = 0.05, 0.8
    fit(point, dot, bowl, Recipe(steps=15, optimizer=SGD(momentum), learning_rate=rate), seed=0)
    expected = []
    for start, curvature in ((4.0, 1.0), (-2.0, 10.0)):
        # (x, v) ← (x - rate · (momentum v + curvature x), momentum v + curvature x)
        step = torch.tensor([[1 - rate * curvature, -rate * momentum], [curvature, momentum]], dtype=torch.float64)
        expected.append(float((torch.linalg.matrix_power(step, 15) @ torch.tensor([start, 0.0]).double())[0]))
    assert next(point.module.parameters()).tolist() == pytest.approx(expected, rel=1e-9)


def test_it_learns_and_the_history_tells_the_truth(fresh: Make, shapes: Data) -> None:
    train, held_out = shapes.split(0.7, 0.3, seed=0)
    model = fresh()
    recipe = Recipe(epochs=12, batch_size=16, learning_rate=1e-2, evaluate_every=5)
    fitted = fit(model, train, cross_entropy, recipe, seed=0, held_out=held_out)
    assert [row.step for row in fitted.history] == [*range(5, 48, 5), 48]
    last = fitted.history[-1]
    logits = model.logits(held_out.x)
    assert last.loss is not None
    assert last.accuracy is not None
    assert last.loss.value == pytest.approx(float(functional.cross_entropy(logits, held_out.y)), rel=1e-5)
    assert last.accuracy.value == float((logits.argmax(1) == held_out.y).double().mean())
    assert last.accuracy.value > 0.9
    assert last.epoch == 12
    assert fitted.stopped == "all 48 steps done"
    assert fitted.model == model.fingerprint() != fitted.provenance.model


def test_the_interval_of_the_loss_is_that_of_a_mean(fresh: Make, shapes: Data) -> None:
    model = fresh()
    losses = functional.cross_entropy(model.logits(shapes.x), shapes.y, reduction="none").double()
    whole, _ = evaluate(model, shapes)
    parts, accuracy = evaluate(model, shapes, batch_size=7)
    half = 1.959964 * float(losses.std()) / 90**0.5
    assert whole.value == pytest.approx(parts.value, rel=1e-6) == pytest.approx(float(losses.mean()), rel=1e-6)
    assert (parts.high - parts.value) == pytest.approx(half, rel=1e-4) == pytest.approx(parts.value - parts.low)
    assert accuracy.n == 90


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(fresh: Make, shapes: Data) -> None:
    models = [fresh() for _ in range(3)]
    recipe = Recipe(epochs=2, batch_size=16, learning_rate=1e-2)
    found: list[Fitted] = []
    for model, seed in zip(models, (3, 3, 4), strict=True):
        torch.manual_seed(len(found))  # the caller's random state has no say
        found.append(fit(model, shapes, cross_entropy, recipe, seed=seed, held_out=shapes))
    assert same(models[0], models[1])
    assert found[0].history == found[1].history
    assert not same(models[0], models[2])


def test_it_leaves_the_callers_random_state_and_the_model_as_a_model_should_be(fresh: Make, shapes: Data) -> None:
    model = fresh()
    model.module.get_submodule("0").weight.requires_grad_(False)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(model, shapes, cross_entropy, Recipe(steps=3), seed=0)
    assert torch.equal(torch.rand(3), expected)
    model.require_eval()
    assert [p.requires_grad for p in model.module.parameters()] == [False, True, True, True, True, True]
    assert all(p.grad is None for p in model.module.parameters())


def test_after_an_exception_the_model_is_in_eval_mode(fresh: Make, shapes: Data) -> None:
    def failing(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        assert model.module.training
        raise RuntimeError("no")

    model = fresh()
    with pytest.raises(RuntimeError, match="no"):
        fit(model, shapes, failing, Recipe(steps=3, trainable=("6",)), seed=0)
    model.require_eval()
    assert all(p.requires_grad for p in model.module.parameters())


def test_what_is_not_trainable_does_not_change_statistics_included(fresh: Make, shapes: Data) -> None:
    model = fresh()
    before = weights(model)
    recipe = Recipe(steps=5, optimizer=Adam(weight_decay=0.1), learning_rate=0.1, trainable=("6",))
    fit(model, shapes, cross_entropy, recipe, seed=0, held_out=shapes)
    changed = {name for name, tensor in weights(model).items() if not torch.equal(tensor, before[name])}
    assert changed == {"6.weight", "6.bias"}
    fit(model, shapes, cross_entropy, Recipe(steps=5, trainable=("1", "0.bias")), seed=0)
    after = {name for name, tensor in weights(model).items() if not torch.equal(tensor, before[name])}
    assert after - changed == {f"1.{n}" for n in ("weight", "bias", "running_mean", "running_var")} | {
        "1.num_batches_tracked",
        "0.bias",
    }


def test_early_stop_goes_back_to_the_best_weights(fresh: Make, shapes: Data) -> None:
    train, held_out = shapes.split(0.5, 0.5, seed=0)
    kept: list[dict[str, torch.Tensor]] = []

    def overshooting(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        kept.append(weights(model))
        return cross_entropy(model, x, y, step) * (1 if step.number < 10 else -1)  # learns, then unlearns

    model = fresh()
    recipe = Recipe(steps=100, batch_size=45, learning_rate=1e-2, evaluate_every=1, early_stop=EarlyStop(4))
    fitted = fit(model, train, overshooting, recipe, seed=0, held_out=held_out)
    losses = [row.loss.value for row in fitted.history if row.loss is not None]
    best = losses.index(min(losses))
    assert fitted.stopped == "no better held-out loss in 4 evaluations"
    assert fitted.best == best == len(losses) - 5
    assert evaluate(model, held_out)[0].value == losses[best]
    parameters = dict(model.module.named_parameters())
    assert all(torch.equal(parameters[name], kept[best + 1][name]) for name in parameters)


def test_a_loss_that_is_not_finite_stops_before_the_weights_are_spoilt(fresh: Make, shapes: Data) -> None:
    def breaking(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return cross_entropy(model, x, y, step) * (float("nan") if step.number == 4 else 1)

    model = fresh()
    with pytest.raises(TrainingError, match=r"nan at step 4, at a learning rate of 0\.01.*Lower the learning rate"):
        fit(model, shapes, breaking, Recipe(steps=9, learning_rate=0.01), seed=0)
    assert all(p.isfinite().all() for p in model.module.parameters())


def test_weights_that_are_not_finite_are_not_returned(point: Model, dot: Data) -> None:
    with pytest.raises(TrainingError, match="no longer finite"):
        fit(point, dot, bowl, Recipe(steps=1, optimizer=SGD(), learning_rate=1e308), seed=0)


def test_the_result_prints_draws_and_becomes_json(fresh: Make, shapes: Data) -> None:
    fitted = fit(fresh(), shapes, cross_entropy, Recipe(epochs=2, early_stop=EarlyStop(1)), seed=0, held_out=shapes)
    again = Result.from_json(fitted.to_json())
    assert isinstance(again, Fitted)
    assert again.history == fitted.history
    assert again.recipe == fitted.recipe
    assert again.provenance == fitted.provenance
    assert "held-out accuracy" in str(fitted)
    assert len(fitted.draw().get_axes()) == 2
    assert len(fit(fresh(), shapes, cross_entropy, Recipe(epochs=1), seed=0).draw().get_axes()) == 1


def test_what_does_not_fit_together_is_refused(fresh: Make, shapes: Data, dot: Data) -> None:
    empty = shapes.first(0)
    for data, recipe, message in (
        (dot, Recipe(steps=1), "takes inputs of shape"),
        (empty, Recipe(steps=1), "has no examples"),
        (shapes, Recipe(steps=1, early_stop=EarlyStop(1)), "needs held-out data"),
        (shapes, Recipe(steps=1, trainable=("head",)), "'head'.*There are"),
    ):
        with pytest.raises(InputError, match=message):
            fit(fresh(), data, cross_entropy, recipe, seed=0)
    frozen = fresh()
    frozen.module.requires_grad_(False)
    with pytest.raises(InputError, match="nothing to train"):
        fit(frozen, shapes, cross_entropy, Recipe(steps=1), seed=0)


def test_micro_batches_add_up_to_the_gradient_of_the_batch(small_cnn: Model, shapes: Data) -> None:
    weights_after = []
    data = Data(shapes.x, shapes.y, small_cnn.classes)
    for parts in (1, 3):
        model = deepcopy(small_cnn)
        fitted = fit(
            model,
            data,
            cross_entropy,
            Recipe(steps=3, batch_size=16, optimizer=SGD(), learning_rate=0.1, micro_batches=parts, evaluate_every=1),
            seed=3,
        )
        weights_after.append((weights(model), [row.train_loss for row in fitted.history]))
    (whole, losses), (in_parts, losses_in_parts) = weights_after
    assert losses_in_parts == pytest.approx(losses, rel=1e-5)
    for name, tensor in whole.items():
        torch.testing.assert_close(in_parts[name], tensor, rtol=1e-4, atol=1e-6)
    assert any(not torch.equal(in_parts[name], tensor) for name, tensor in whole.items())  # they were really parts


def test_more_micro_batches_than_examples_and_gradients_of_ones_own(fresh: Make, shapes: Data) -> None:
    fit(fresh(), shapes.first(3), cross_entropy, Recipe(steps=2, batch_size=2, micro_batches=8), seed=0)

    class Own:
        def gradients(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
            raise AssertionError

    with pytest.raises(InputError, match="needs whole batches"):
        fit(fresh(), shapes, Own(), Recipe(steps=1, micro_batches=2), seed=0)


def test_dropout_and_the_objective_draw_numbers_of_their_own(fresh: Make, shapes: Data) -> None:
    """If both had one seed, the noise of an adversarial start would be that of the dropout mask."""
    seen: list[tuple[float, ...]] = []

    def listening(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        seen.append(tuple(torch.rand(4, generator=step.generator).tolist()))
        seen.append(tuple(torch.rand(4).tolist()))  # what dropout would draw
        return cross_entropy(model, x, y, step)

    fit(fresh(), shapes, listening, Recipe(steps=3, batch_size=32, micro_batches=2), seed=0)
    assert len(seen) == 2 * 3 * 2
    assert len(set(seen)) == len(seen), "the same numbers were drawn twice"
