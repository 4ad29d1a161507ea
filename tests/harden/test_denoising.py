"""Denoising blocks: the operations against slow and obvious ones, and networks that are unchanged at first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError, ModelError, SliceError
from modelkeep.harden.denoising import Denoise, Kind, median_filter, with_denoising
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo.architectures import small_cnn, small_resnet

KINDS: tuple[Kind, ...] = ("gaussian", "dot product", "mean", "median")


def features(seed: int = 0) -> torch.Tensor:
    return torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["gaussian", "dot product"])
def test_non_local_means_are_the_sums_over_all_pairs_of_positions(kind: Kind) -> None:
    torch.manual_seed(1)
    block, x = Denoise(3, kind).requires_grad_(False), features()
    found = block.operation(x)
    for n in range(len(x)):
        vectors = x[n].flatten(1).T  # one row of channels per position
        for i, here in enumerate(vectors):
            total, norm = torch.zeros(3), 0.0
            for there in vectors:
                if kind == "gaussian":
                    theta = block.theta.weight[:, :, 0, 0] @ here + block.theta.bias
                    phi = block.phi.weight[:, :, 0, 0] @ there + block.phi.bias
                    weight = torch.exp(theta @ phi / 3**0.5)
                    norm += float(weight)
                else:
                    weight, norm = here @ there, len(vectors)
                total = total + weight * there
            assert torch.allclose(found[n].flatten(1)[:, i], total / norm, atol=1e-5)


def test_the_mean_filter_averages_the_neighbours_that_exist() -> None:
    x = features().numpy()
    window = np.ones((1, 1, 3, 3))
    expected = ndimage.convolve(x, window, mode="constant") / ndimage.convolve(np.ones_like(x), window, mode="constant")
    np.testing.assert_allclose(Denoise(3, "mean").operation(torch.from_numpy(x)), expected, atol=1e-6)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_median_filter_is_scipys(size: int) -> None:
    x = features().numpy()
    expected = ndimage.median_filter(x, size=(1, 1, size, size), mode="nearest")
    np.testing.assert_array_equal(median_filter(torch.from_numpy(x), size), expected)
    np.testing.assert_array_equal(Denoise(3, "median").operation(features()), median_filter(features(), 3))


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_can_be_differentiated_twice_for_gradient_penalties(kind: Kind) -> None:
    torch.manual_seed(0)
    block = Denoise(2, kind).double()
    nn.init.normal_(block.conv.weight)
    x = torch.randn(1, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(block, x)


@pytest.mark.parametrize("kind", KINDS)
def test_new_blocks_change_no_bit_of_the_logits_and_nothing_of_the_owners_model(kind: Kind) -> None:
    torch.manual_seed(0)
    model = Model(small_resnet((3, 16, 16), 5), input_shape=(3, 16, 16), classes=5)
    before, random = model.fingerprint(), torch.random.get_rng_state()
    names = [name for name, part in model.module.named_modules() if isinstance(part, nn.Conv2d)]
    stage = names[-1].rpartition(".")[0]  # a stage and what is inside of it
    made = with_denoising(model, (stage, names[0], names[-1]), kind=kind)
    assert torch.equal(made.logits(model.probe()), model.logits(model.probe()))
    assert model.fingerprint() == before
    assert torch.equal(torch.random.get_rng_state(), random)
    assert sum(isinstance(part, Denoise) for part in made.module.modules()) == 3
    shared = {p.data_ptr() for p in model.module.parameters()} & {p.data_ptr() for p in made.module.parameters()}
    assert not shared


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_learn_and_smooth_what_they_see(kind: Kind) -> None:
    model = Model(small_cnn((1, 8, 8), 2), input_shape=(1, 8, 8), classes=2)
    made = with_denoising(model, ("conv1",), kind=kind)
    x = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    data = Data(x, (x.mean(dim=(1, 2, 3)) > x.mean()).long(), made.classes)
    fit(made, data, cross_entropy, Recipe(steps=3, learning_rate=0.01), seed=0)
    block = made.module.get_submodule("conv1.denoise")
    assert isinstance(block, Denoise)
    assert block.conv.weight.abs().max() > 0
    # Written out: the block adds the convolution of what the operation gives.
    z = made.module.get_submodule("conv1.layer")(x)
    expected = z + torch.einsum("oi,nihw->nohw", block.conv.weight[:, :, 0, 0], block.operation(z))
    expected = expected + block.conv.bias[:, None, None]  # type: ignore[index]
    assert torch.allclose(made.slice("conv1.denoise").h(x).value, expected, atol=1e-5)


def test_a_denoised_network_of_ours_is_saved_and_read_back(tmp_path: Path) -> None:
    shape = {"input_shape": [1, 8, 8], "classes": 4}
    model = Model(
        small_cnn((1, 8, 8), 4),
        input_shape=(1, 8, 8),
        classes=4,
        architecture="modelkeep.architectures:small_cnn",
        arguments=shape,
    )
    made = with_denoising(model, ("conv2",))
    with torch.no_grad():
        made.module.get_submodule("conv2.denoise").conv.weight.normal_()  # type: ignore[union-attr, operator]
    path = made.save(tmp_path / "denoised.safetensors")
    read = Model.load("modelkeep.harden.denoising:denoised", weights=path)
    assert torch.equal(read.logits(model.probe()), made.logits(model.probe()))
    with pytest.raises(ModelError, match="A file may only name a factory"):
        Model.load(path)


def test_unusable_places_and_kinds_are_refused(small_cnn: Model) -> None:
    with pytest.raises(SliceError, match="no module of that name"):
        with_denoising(small_cnn, ("linear",))
    with pytest.raises(SliceError, match="'4' gives"):
        with_denoising(small_cnn, ("4",))
    with pytest.raises(InputError, match="'after' parameter"):
        with_denoising(small_cnn, "0")
    with pytest.raises(InputError, match="'kind' parameter"):
        with_denoising(small_cnn, ("0",), kind="average")  # type: ignore[arg-type]
