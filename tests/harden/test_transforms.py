"""Transforms: what they do to images, that models keep their card, and that an attacker who knows them gets through."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.attack.adaptive import bpda, eot
from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import InputError
from modelkeep.harden.adversarial import PGDTraining
from modelkeep.harden.jpeg import Jpeg
from modelkeep.harden.squeezing import BitDepth
from modelkeep.harden.transforms import Foveate, LogitNoise, RandomResize, defended
from modelkeep.training import Step


def images(channels: int = 2, height: int = 9, width: int = 12) -> torch.Tensor:
    return torch.rand(3, channels, height, width, generator=torch.Generator().manual_seed(0))


def test_transforms_act_on_the_owners_units_before_the_preprocessing() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(2 * 9 * 12, 3))
    model = Model(
        module,
        input_shape=(2, 9, 12),
        classes=("a", "b", "c"),
        bounds=(-1.0, 2.0),
        preprocessing=Preprocessing((0.4, 0.5), (0.2, 0.3)),
    )
    before = model.fingerprint()
    made = defended(model, BitDepth(2, model.bounds or (0, 1)))
    x = images()
    squeezed = ((x + 1) * 1.0).round() - 1  # four levels from -1 to 2 are one apart
    assert torch.allclose(made.logits(x), model.logits(squeezed), atol=1e-5)
    assert (made.bounds, made.classes, made.input_shape) == (model.bounds, model.classes, model.input_shape)
    assert model.fingerprint() == before
    with torch.no_grad():
        made.module.get_parameter("network.1.weight").zero_()
    assert model.fingerprint() == before
    with pytest.raises(InputError, match=r"within \(0.0, 1.0\), but the model takes inputs within \(-1.0, 2.0\)"):
        defended(model, nn.Sequential(Foveate(), Jpeg()))


def test_a_transform_for_images_is_refused_in_front_of_a_table() -> None:
    table = Model(nn.Linear(4, 2), input_shape=(4,), classes=2)
    for transform in (Foveate(), RandomResize(), Jpeg()):
        with pytest.raises(InputError, match=r"does not fit a model for inputs of shape \(4,\)"):
            defended(table, transform)
    assert defended(table, LogitNoise()).input_shape == (4,)
    with pytest.raises(InputError, match="LogitNoise belongs behind the network"):
        defended(table, nn.Sequential(BitDepth(2), LogitNoise()))


def test_foveation_keeps_the_middle_and_all_of_it_at_share_1() -> None:
    x = images()
    assert torch.allclose(Foveate(1.0)(x), x, atol=1e-6)
    framed = nn.functional.pad(torch.ones(1, 1, 4, 4), (2, 2, 2, 2))
    assert torch.equal(Foveate(0.5)(framed), torch.ones(1, 1, 8, 8))


def test_random_resizing_places_the_image_as_scipy_does() -> None:
    x = images(height=10, width=10)
    share, across, down = torch.tensor([[0.5, 0.8, 1.0], [0.3, -0.2, 0.0], [-0.5, 0.1, 0.0]])
    found = RandomResize(0.5, fill=0.25).place(x, share, across, down)
    for n in range(3):
        for c in range(2):
            # In pixels: the output's row i lies at (i + 0.5 - 5)/5 of the canvas.
            factor = 1 / float(share[n])
            offsets = [((-4.5 - 5 * float(centre[n])) * factor) + 4.5 for centre in (down, across)]
            expected = ndimage.affine_transform(
                x[n, c].double().numpy(), [factor, factor], offsets, order=1, mode="grid-constant", cval=0.25
            )
            np.testing.assert_allclose(found[n, c], expected, atol=1e-5)
    assert torch.allclose(found[2], x[2], atol=1e-6)


def test_random_resizing_draws_for_each_example_and_loses_nothing() -> None:
    resize = RandomResize(0.5)
    same = torch.ones(200, 1, 16, 16)
    torch.manual_seed(0)
    first = resize(same)
    share = first.mean(dim=(1, 2, 3)).sqrt()  # all of the image is on the canvas, so the area tells its size
    assert share.std() > 0.1
    assert share.min() > 0.49
    assert share.max() < 1.01
    assert float(share.mean()) == pytest.approx(0.75, abs=0.03)
    assert not torch.equal(resize(same), first)
    torch.manual_seed(0)
    assert torch.equal(resize(same), first)


def test_logit_noise_is_added_after_the_network(trained: Model, digits: tuple[Data, Data]) -> None:
    x = digits[1].x[:50]
    noisy = defended(trained, LogitNoise(2.0))
    with noisy.frozen(seed=0):
        differences = torch.cat([noisy.logits(x) - trained.logits(x) for _ in range(20)])
        repeated = noisy.logits(x)
    assert abs(float(differences.mean())) < 0.05
    assert float(differences.std()) == pytest.approx(2.0, abs=0.05)
    with noisy.frozen(seed=0):
        for _ in range(20):
            noisy.logits(x)
        assert torch.equal(noisy.logits(x), repeated)


@pytest.mark.parametrize("name", ["jpeg", "bit depth"])
def test_what_has_no_gradient_stops_pgd_and_falls_to_bpda(name: str, trained: Model, digits: tuple[Data, Data]) -> None:
    data = digits[1].first(100)
    made = defended(trained, Jpeg(75) if name == "jpeg" else BitDepth(3))
    naive = PGD(radius=0.15, steps=15)(made, data, seed=0)
    knowing = PGD(radius=0.15, steps=15)(bpda(made, "transform"), data, seed=0)
    assert naive.robust_accuracy.value > naive.clean_accuracy.value - 0.1
    assert any("masked gradients suspected" in note for note in naive.health)
    assert knowing.robust_accuracy.value < 0.35
    assert not any("masked gradients suspected" in note for note in knowing.health)
    # What was found with another gradient holds for the deployed model itself.
    assert torch.equal(made.predict(knowing.adversarial), knowing.after)


def test_random_resizing_falls_further_to_eot_than_to_what_transfers(trained: Model, digits: tuple[Data, Data]) -> None:
    data = digits[1].first(100)
    made = defended(trained, RandomResize(0.6))

    def accuracy(model: Model) -> float:
        """Of the deployed model, on inputs that make `model` as wrong as it gets; the mean of ten draws."""
        with made.frozen(seed=0):
            step = Step(0, 1, 1, generator=torch.Generator().manual_seed(0))
            moved = PGDTraining(radius=0.1, norm="linf", steps=15).attack_batch(model, data.x, data.y, step)
            return sum(float((made.predict(moved) == data.y).double().mean()) for _ in range(10)) / 10

    assert accuracy(eot(made, 10)) < accuracy(trained) - 0.05


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Foveate(0.0), id="foveate"),
        pytest.param(lambda: RandomResize(1.5), id="resize"),
        pytest.param(lambda: LogitNoise(-1.0), id="noise"),
        pytest.param(lambda: Jpeg(0), id="jpeg"),
        pytest.param(lambda: BitDepth(0), id="bits"),
    ],
)
def test_settings_out_of_range_are_refused(make: type) -> None:
    with pytest.raises(InputError, match=r"parameter of \w+ must be"):
        make()
