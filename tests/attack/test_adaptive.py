"""BPDA and EOT: the same answers with gradients that an attack can use."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.attack.adaptive import bpda, eot
from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import InputError, ModelError, SliceError


class Steps(nn.Module):
    """Eight grey levels: flat almost everywhere."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 7).round() / 7


class Noise(nn.Module):
    """Gaussian noise on what comes."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale * torch.randn_like(x)


def stepped(seed: int = 0) -> Model:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Conv2d(2, 4, 3), Steps(), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    return Model(module, input_shape=(2, 8, 8), classes=3, preprocessing=Preprocessing((0.5,), (0.25,)))


def input_gradient(model: Model, x: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(model.forward(x)[:, 0].sum(), x)[0]


def test_bpda_answers_the_same_and_differentiates_the_identity() -> None:
    model = stepped()
    x = model.probe()
    adaptive = bpda(model, "1")
    assert torch.equal(adaptive.logits(x), model.logits(x))
    assert not input_gradient(model, x).any()
    # By hand: what comes after the steps, at the stepped values, times what comes before them.
    module = model.module
    assert isinstance(module, nn.Sequential)
    z = module[0](model.preprocess(x))
    y = module[1](z).detach().requires_grad_()
    (upper,) = torch.autograd.grad(module[2:](y)[:, 0].sum(), y)
    assert isinstance(module[0], nn.Conv2d)
    expected = nn.functional.conv_transpose2d(upper, module[0].weight) / 0.25
    assert torch.allclose(input_gradient(adaptive, x), expected, atol=1e-6)


def test_bpda_differentiates_the_given_approximation() -> None:
    model = stepped()
    x = model.probe()
    tripled = bpda(model, "1", backward=lambda z: 3 * z)
    assert torch.equal(tripled.logits(x), model.logits(x))
    assert torch.allclose(input_gradient(tripled, x), 3 * input_gradient(bpda(model, "1"), x), atol=1e-6)
    smooth = nn.Tanh()
    assert input_gradient(bpda(model, "1", backward=smooth), x).abs().max() > 0


def test_bpda_shares_the_weights_and_leaves_the_model_alone() -> None:
    model = stepped()
    before, printed = model.fingerprint(), str(model.module)
    model.module.train()
    adaptive = bpda(model, "1")
    assert model.module.training
    assert not adaptive.module.training
    model.module.eval()
    assert (str(model.module), model.fingerprint()) == (printed, before)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(2)
    assert torch.equal(adaptive.logits(model.probe()), model.logits(model.probe()))


def test_bpda_refuses_unknown_places_and_other_shapes() -> None:
    with pytest.raises(SliceError, match="no module of that name"):
        bpda(stepped(), "steps")
    with pytest.raises(ModelError, match=r"'0' gives shape \(2, 4, 6, 6\), but its input has \(2, 2, 8, 8\)"):
        bpda(stepped(), "0").logits(stepped().probe())


def test_eot_of_noisy_logits_has_the_gradient_of_the_mean_probability() -> None:
    scale, n = 1.5, 20_000
    linear = nn.Linear(3, 2)
    model = Model(nn.Sequential(linear, Noise(scale)), input_shape=(3,), classes=2)
    x = torch.tensor([[0.2, 0.9, 0.4]])
    averaged = eot(model, n)
    with model.frozen(seed=0):
        probability = averaged.probs(x)[0, 0]
        gradient = input_gradient(averaged, x)[0]
    # The difference of the two logits is Gaussian: integrate over it on a grid.
    margin = float((linear(x)[0, 0] - linear(x)[0, 1]).detach())
    grid = np.linspace(-12, 12, 20_001)
    density = np.exp(-(grid**2) / 2) / np.exp(-(grid**2) / 2).sum()
    sigmoid = 1 / (1 + np.exp(-(margin + scale * 2**0.5 * grid)))
    mean = (density * sigmoid).sum()
    slope = (density * sigmoid * (1 - sigmoid)).sum() / mean
    assert float(probability) == pytest.approx(mean, abs=0.01)
    expected = slope * (linear.weight[0] - linear.weight[1]).detach()
    assert torch.allclose(gradient, expected, atol=0.02)


def test_eot_comes_nearer_to_the_noise_free_gradient_the_more_is_drawn() -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh())
    top = nn.Linear(16, 3)
    noisy = Model(nn.Sequential(body, Noise(0.1), top, Noise(0.1)), input_shape=(8, 8), classes=3)
    clean = Model(nn.Sequential(body, top), input_shape=(8, 8), classes=3)
    x = clean.probe()
    truth = input_gradient(eot(clean, 1), x)

    def error(samples: int) -> float:
        with noisy.frozen(seed=0):
            return float((input_gradient(eot(noisy, samples), x) - truth).norm())

    assert error(256) < 0.25 * error(1)


def test_eot_draws_anew_in_each_pass_and_refuses_no_pass() -> None:
    model = Model(nn.Sequential(nn.Linear(4, 2), Noise(1.0)), input_shape=(4,), classes=2)
    averaged = eot(model, 64)
    x = model.probe()
    with model.frozen(seed=0):
        assert not torch.equal(averaged.logits(x), averaged.logits(x))
        spread = torch.stack([averaged.probs(x) for _ in range(20)]).std(dim=0)
        alone = torch.stack([model.probs(x) for _ in range(20)]).std(dim=0)
    assert (spread < alone / 3).all()
    with pytest.raises(InputError, match="'samples' parameter of eot"):
        eot(model, 0)
