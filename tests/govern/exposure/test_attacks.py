"""What an attacker at a cut can learn: against closed forms, and against cuts that tell nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from digits import held_out_digits
from modelkeep import Data, Model
from modelkeep.core.errors import InputError, SliceError
from modelkeep.govern.exposure import infer_labels, invert, measures
from modelkeep.govern.exposure.cut import Exposed
from modelkeep.govern.exposure.inversion import Attacker, Scale, white_box
from modelkeep.govern.exposure.labels import (
    LabelAttack,
    at_the_logits,
    by_direction,
    by_norm,
    few_of_each,
    name_clusters,
)
from modelkeep.training import Recipe

LINEAR = Recipe(steps=300, batch_size=16, learning_rate=3e-3)


def numbers(classes: int = 3, n: int = 120) -> Data:
    generator = torch.Generator().manual_seed(0)
    return Data(torch.randn(n, 6, generator=generator), torch.arange(n) % classes, tuple(map(str, range(classes))))


def linear(h: torch.Tensor, classes: int = 3) -> Model:
    """A model whose first half is the matrix `h: (numbers, 6)`."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, len(h), bias=False), nn.Linear(len(h), classes))
    with torch.no_grad():
        next(module.parameters()).copy_(h)
    return Model(module, input_shape=(6,), classes=classes, bounds=None)


def rotation() -> torch.Tensor:
    rotated: torch.Tensor = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(2))).Q
    return rotated


def test_a_rotation_is_inverted_exactly_by_who_knows_it() -> None:
    found = invert(linear(rotation()), numbers(), slice="0", attacker="white_box", seed=0)
    assert found.error.value < 1e-4
    assert found.reidentified.value == 1.0
    assert found.ssim is None, "a table is no picture"
    torch.testing.assert_close(found.reconstructed, found.truth, atol=0.02, rtol=0)


def test_a_rotation_is_learned_by_who_has_seen_pairs() -> None:
    found = invert(linear(rotation()), numbers(n=600), slice="0", attacker="decoder", recipe=LINEAR, seed=0)
    assert found.error.value < 0.1


@pytest.mark.parametrize("attacker", ["white_box", "decoder"])
def test_a_constant_tells_nothing(attacker: Attacker) -> None:
    found = invert(linear(torch.zeros(4, 6)), numbers(), slice="0", attacker=attacker, count=40, seed=0)
    # The decoder can only shift its guess by a constant.
    assert found.error.value == pytest.approx(1.0, abs=1e-6 if attacker == "white_box" else 0.05)
    assert found.reidentified.value <= 1 / 40


def test_half_of_the_numbers_tell_half() -> None:
    """From three of six independent numbers nobody gets the other three: an error of one half, whoever asks."""
    for attacker in ("white_box", "decoder"):
        found = invert(
            linear(torch.eye(6)[:3]), numbers(n=1000), slice="0", attacker=attacker, count=300, recipe=LINEAR, seed=0
        )  # fmt: skip
        assert found.error.value == pytest.approx(0.5, abs=0.07)
        assert found.error.low <= found.error.value <= found.error.high


def test_what_the_search_finds_explains_what_was_seen() -> None:
    h = torch.randn(3, 6, generator=torch.Generator().manual_seed(4))
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(5))
    found = white_box(lambda u: u @ h.T, x @ h.T, Scale(torch.zeros(6), torch.ones(6), None), steps=2000)
    torch.testing.assert_close(found @ h.T, x @ h.T, atol=1e-2, rtol=0)


def test_deeper_cuts_of_a_cnn_tell_less_of_the_inputs(trained_cnn: Model) -> None:
    first, last = (
        invert(trained_cnn, held_out_digits(), slice=place, count=32, steps=150, seed=0)
        for place in ("conv1", "linear1")
    )
    assert first.error.high < 0.05 < last.error.low
    assert first.ssim is not None
    assert last.ssim is not None
    assert first.ssim.low > last.ssim.high
    assert first.draw().axes


def test_ssim_is_that_of_the_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.rand(2, 3, 1, 9, 8, generator=generator).double()
    by_hand = []
    for one, other in zip(a[:, 0], b[:, 0], strict=True):
        values = []
        for i in range(9 - 6):
            for j in range(8 - 6):
                p, q = one[i : i + 7, j : j + 7].flatten(), other[i : i + 7, j : j + 7].flatten()
                covariance = torch.cov(torch.stack([p, q]))
                top = (2 * p.mean() * q.mean() + 1e-4) * (2 * covariance[0, 1] + 9e-4)
                bottom = (p.mean() ** 2 + q.mean() ** 2 + 1e-4) * (covariance[0, 0] + covariance[1, 1] + 9e-4)
                values.append(float(top / bottom))
        by_hand.append(sum(values) / len(values))
    found = measures.similarity(a, b, 1.0, seed=0)
    assert found is not None
    assert found.value == pytest.approx(sum(by_hand) / 3)
    same = measures.similarity(a, a, 1.0, seed=0)
    assert same is not None
    assert same.value == pytest.approx(1.0)


def test_the_gradients_that_cross_are_those_of_each_example(trained_cnn: Model) -> None:
    exposed = Exposed.at(trained_cnn, "conv1_pool")
    x, y = held_out_digits().x[:5], held_out_digits().y[:5]
    together = exposed.gradients(x, y)
    for i in range(5):
        torch.testing.assert_close(together[i : i + 1], exposed.gradients(x[i : i + 1], y[i : i + 1]))
    assert all(parameter.grad is None for parameter in trained_cnn.module.parameters())


def test_at_the_logits_the_labels_are_in_the_open(trained_cnn: Model) -> None:
    found = infer_labels(trained_cnn, held_out_digits(), slice="logits", attack="closed_form", seed=0)
    assert found.accuracy.value == 1.0
    assert found.accuracy.n == len(held_out_digits())
    probabilities = torch.rand(50, 7).softmax(dim=1)
    y = torch.arange(50) % 7
    assert torch.equal(at_the_logits(probabilities - nn.functional.one_hot(y, 7)), y)


def test_the_closed_form_is_refused_before_the_logits(trained_cnn: Model) -> None:
    with pytest.raises(SliceError, match="last place"):
        infer_labels(trained_cnn, held_out_digits(), slice="linear1", attack="closed_form", seed=0)


@pytest.mark.parametrize("attack", ["direction", "surrogate"])
@pytest.mark.parametrize("known", [0, 1])
def test_before_a_linear_layer_the_directions_are_the_labels(
    trained_cnn: Model, attack: LabelAttack, known: int
) -> None:
    found = infer_labels(
        trained_cnn, held_out_digits(), slice="linear1_relu", attack=attack, known=known, count=200, seed=0
    )
    assert found.accuracy.low > 0.9
    assert found.majority < 0.2
    assert found.accuracy.n == 200 - 10 * known, "known labels are not counted"


def test_random_gradients_tell_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(400) % 4
    hints = few_of_each(y, 4, 1)
    for seed in range(3):
        noise = torch.randn(400, 20, generator=generator.manual_seed(seed))
        guesses = name_clusters(by_direction(noise, 4, y[hints], hints), y, 4, hints)
        assert 0.15 < float((guesses == y).double().mean()) < 0.35


def test_long_gradients_are_those_of_the_rarer_class() -> None:
    """Li et al.: the norm is |p − y| times something: near 1 for a positive where p is the small rate of positives."""
    y = (torch.arange(300) % 10 == 0).long()
    slopes = torch.randn(300, 8, generator=torch.Generator().manual_seed(0))
    slopes = slopes / slopes.norm(dim=1, keepdim=True)
    guesses = by_norm((0.1 - y.double())[:, None] * slopes)
    assert torch.equal(guesses, y)


def test_the_norm_attack_finds_a_rare_class_through_a_model() -> None:
    x = torch.randn(400, 6, generator=torch.Generator().manual_seed(0))
    data = Data(x, (torch.arange(400) % 10 == 0).long(), ("common", "rare"))
    model = linear(rotation(), classes=2)
    with torch.no_grad():
        output = list(model.module.parameters())[1:]
        output[0].mul_(0.1)
        output[1].copy_(torch.tensor([2.0, 0.0]))  # it answers "common" to all, as after the first few steps
    found = infer_labels(model, data, slice="0", attack="norm", seed=0)
    assert found.accuracy.value > 0.99 > found.majority


def test_what_cannot_be_attacked_is_refused_in_a_sentence(trained_cnn: Model) -> None:
    with pytest.raises(InputError, match="two classes"):
        infer_labels(trained_cnn, held_out_digits(), slice="linear1", attack="norm", seed=0)
    with pytest.raises(InputError, match="at least 4 examples"):
        invert(trained_cnn, held_out_digits().first(3), slice="linear1", seed=0)
    with pytest.raises(InputError, match="'count' parameter"):
        invert(trained_cnn, held_out_digits(), slice="linear1", count=1, seed=0)
    with pytest.raises(InputError, match="nothing to reconstruct"):
        measures.relative_error(torch.ones(3, 2), torch.ones(3, 2), torch.ones(2), seed=0)
