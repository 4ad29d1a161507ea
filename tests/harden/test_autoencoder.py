"""The contractive autoencoder: its penalty against Jacobians by brute force, and its training in the one loop."""

from __future__ import annotations

import pytest
import torch
from torch.func import jacrev, vmap

from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.core.errors import InputError
from modelkeep.harden.autoencoder import Autoencoder, Contractive, contraction_of, with_autoencoder
from modelkeep.training import Recipe, Step, fit


def squared_norms(jacobians: torch.Tensor) -> torch.Tensor:
    return jacobians.flatten(1).square().sum(dim=1)


def test_the_contraction_of_one_layer_is_the_squared_norm_of_its_jacobian() -> None:
    torch.manual_seed(0)
    autoencoder = Autoencoder((2, 3, 3), widths=(7,)).double()
    x = torch.rand(5, 2, 3, 3).double()
    jacobians = vmap(jacrev(lambda one: autoencoder.encode(one[None])[0]))(x)
    assert jacobians.shape == (5, 7, 2, 3, 3)
    assert torch.allclose(contraction_of(autoencoder, autoencoder.layers(x)), squared_norms(jacobians))


def test_the_contraction_of_a_deep_encoder_is_the_sum_over_its_layers() -> None:
    torch.manual_seed(1)
    autoencoder = Autoencoder((10,), widths=(8, 6, 3), bounds=None).double()
    values = autoencoder.layers(torch.randn(4, 10).double())
    total = torch.zeros(4).double()
    for layer, value in zip(autoencoder.encoder, values, strict=False):
        total += squared_norms(vmap(jacrev(lambda one, layer=layer: torch.tanh(layer(one))))(value))
    assert torch.allclose(contraction_of(autoencoder, values), total)


def test_the_objective_is_the_error_after_noise_and_the_penalty() -> None:
    model = with_autoencoder(
        Model(torch.nn.Linear(6, 2), input_shape=(6,), classes=2, bounds=(-1.0, 1.0)), widths=(5, 3)
    )
    autoencoder = model.module.get_submodule("transform")
    assert isinstance(autoencoder, Autoencoder)
    x, y = model.probe(), torch.zeros(2, dtype=torch.int64)

    def step() -> Step:
        return Step(0, 1, 1, generator=torch.Generator().manual_seed(0))

    loss, metrics = Contractive(penalty=0.5, noise=2.0)(model, x, y, step())
    noisy = (x + 2 * torch.randn(x.shape, generator=step().generator)).clamp(-1, 1)
    error = ((autoencoder(noisy) - x) ** 2).sum() / 2
    assert torch.allclose(metrics["reconstruction"], error)
    assert torch.allclose(loss, error + 0.5 * contraction_of(autoencoder, autoencoder.layers(noisy)).mean())
    assert autoencoder(100 * x).abs().max() <= 1


def test_it_is_trained_in_front_of_a_network_that_stays_as_it_is(trained: Model, digits: tuple[Data, Data]) -> None:
    before = trained.fingerprint()
    model = with_autoencoder(trained, widths=(64, 24), seed=0)
    recipe = Recipe(epochs=25, batch_size=64, learning_rate=3e-3, trainable=("transform",))
    fitted = fit(model, digits[0], Contractive(penalty=1e-3, noise=0.1), recipe, seed=0, held_out=digits[1])
    errors = [row.metrics["reconstruction"] for row in fitted.history]
    assert errors[-1] < 0.5 * errors[0]
    assert fitted.history[-1].accuracy is not None
    assert fitted.history[-1].accuracy.value > 0.75
    assert trained.fingerprint() == before
    weight = model.module.get_parameter("network.conv1.weight")
    assert torch.equal(weight, trained.module.get_parameter("conv1.weight"))
    # It stops what was made for the network alone, and falls to an attack on both: the thesis says so.
    data = digits[1].first(100)
    made_for_the_network = PGD(radius=0.15, steps=15)(trained, data, seed=0)
    transferred = float((model.predict(made_for_the_network.adversarial) == data.y).double().mean())
    both = PGD(radius=0.15, steps=15)(model, data, seed=0)
    assert transferred > both.robust_accuracy.value + 0.15
    assert both.robust_accuracy.value < 0.4


def test_the_contraction_is_smaller_where_it_is_paid_for(trained: Model, digits: tuple[Data, Data]) -> None:
    contractions = []
    for penalty in (0.0, 0.1):
        model = with_autoencoder(trained, widths=(32,), seed=0)
        recipe = Recipe(epochs=3, batch_size=64, learning_rate=3e-3, trainable=("transform",))
        fitted = fit(model, digits[0], Contractive(penalty=penalty), recipe, seed=0)
        contractions.append(fitted.history[-1].metrics["contraction"])
    assert contractions[1] < 0.5 * contractions[0]


def test_it_refuses_models_without_an_autoencoder_and_wrong_settings(trained: Model) -> None:
    with pytest.raises(InputError, match="made by with_autoencoder"):
        Contractive()(trained, trained.probe(), torch.zeros(2, dtype=torch.int64), Step(0, 1, 1))
    with pytest.raises(InputError, match="'widths' parameter of Autoencoder"):
        with_autoencoder(trained, widths=())
    with pytest.raises(InputError, match="'noise' parameter of Contractive"):
        Contractive(noise=-0.1)
