"""Mitigated networks are the given ones without the features, can be saved, and do no harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bias.networks import CLASSES, drawn_network, gaussian_data
from modelkeep import Data, Model, Result
from modelkeep.bias import ExpertMitigation, MeasureAmplification, MeasureAsymmetry, ParityMitigation, SparseMitigation
from modelkeep.core.errors import InputError, ModelError, ResultError

Method = type[ExpertMitigation] | type[ParityMitigation] | type[SparseMitigation]


@pytest.mark.parametrize("method", [ExpertMitigation, ParityMitigation])
def test_removing_features_equals_holding_them_at_their_mean_at_the_slice(method: Method) -> None:
    model, data = drawn_network(), gaussian_data()
    found = method()(model, data, seed=0)
    assert 0 < int(found.kept.sum()) < 12
    cut = model.slice("linear1_relu")
    z = cut.h(data.x)
    masked = torch.where(found.kept, z.value, z.value.mean(dim=0))
    torch.testing.assert_close(found.model.logits(data.x), cut.g(z.replace(masked)).detach(), atol=1e-5, rtol=1e-5)


@given(seed=st.integers(0, 500), prior=st.sampled_from([0.3, 0.5, 0.8]))
def test_experts_never_do_harm_on_the_training_data(seed: int, prior: float) -> None:
    model, data = drawn_network(seed), gaussian_data(seed, n=60, prior=prior)
    found = ExpertMitigation()(model, data, seed=0)
    assert abs(found.after.value) <= abs(found.before.value)
    assert found.accuracy_after.value >= found.accuracy_before.value
    again = MeasureAmplification()(found.model, data, seed=0)
    assert again.amplification.value == pytest.approx(found.after.value)
    assert again.accuracy == found.accuracy_after


def test_parity_evens_out_the_asymmetry() -> None:
    model, data = drawn_network(), gaussian_data()
    found = ParityMitigation()(model, data, seed=0)
    after = MeasureAsymmetry()(model, data, seed=0).orientation[1][found.kept]
    assert (after > 0).sum() == (after < 0).sum() > 0


def test_names_the_numbers_of_features_by_the_majority() -> None:
    """α counts those towards the majority, whichever of the two logits that is."""
    model = drawn_network(3)
    for prior, sign in ((0.7, 1), (0.3, -1)):
        found = ExpertMitigation()(model, gaussian_data(prior=prior), seed=0)
        head = found.model.module.get_submodule("logits").weight
        assert isinstance(head, torch.Tensor)
        influence = sign * (head[1] - head[0])
        assert found.majority == ("most" if sign == 1 else "rest")
        assert (found.towards, found.away) == (int((influence > 0).sum()), int((influence < 0).sum()))


def test_l1_works_for_more_classes_and_gives_few_features() -> None:
    model = drawn_network(outputs=3)
    x = gaussian_data().x
    data = Data(x, x[:, :3].argmax(dim=1), model.classes)
    weak, strong = (SparseMitigation(strength=strength)(model, data, seed=0) for strength in (1e-3, 0.1))
    assert strong.kept.sum() < weak.kept.sum()
    assert weak.accuracy_after.value > weak.accuracy_before.value
    assert weak.towards is weak.away is weak.exact is None


@pytest.mark.parametrize("method", [ExpertMitigation, ParityMitigation, SparseMitigation])
def test_a_saved_model_predicts_the_same(method: Method, tmp_path: Path) -> None:
    model, data = drawn_network(), gaussian_data()
    found = method()(model, data, seed=0).model
    again = Model.load(found.save(tmp_path / "mitigated.safetensors"))
    assert torch.equal(again.logits(data.x), found.logits(data.x))
    assert again.fingerprint() == found.fingerprint() != model.fingerprint()


def test_the_linear_layer_may_be_the_whole_network() -> None:
    torch.manual_seed(1)
    model = Model(nn.Linear(6, 2), input_shape=(6,), classes=CLASSES, bounds=None)
    found = ExpertMitigation()(model, gaussian_data(), seed=0)
    assert found.head == ""
    assert "experts at the linear layer" in str(found)


def test_prints_draws_and_comes_back_from_json_without_the_network() -> None:
    found = ExpertMitigation()(drawn_network(), gaussian_data(), seed=0)
    assert "amplification before" in str(found)
    assert len(found.draw().axes[0].patches) == 2
    again = Result.from_json(found.to_json())
    assert again.to_json() == found.to_json()
    with pytest.raises(ResultError, match="read from JSON holds no network"):
        _ = again.model  # type: ignore[attr-defined]


class Twice(nn.Module):
    """Calls its last layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(self.layer(x[:, :2]))
        return result


class Tied(nn.Module):
    """Its two layers share their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.first(x).relu())
        return result


@pytest.mark.parametrize(
    "end",
    [
        lambda: nn.Sequential(nn.Linear(6, 2), nn.Tanh()),
        lambda: nn.Sequential(nn.Linear(6, 2), nn.LeakyReLU(inplace=True)),
        lambda: nn.Sequential(nn.Linear(6, 2), nn.Softplus()),
        lambda: nn.Sequential(nn.Unflatten(1, (6, 1)), nn.Conv1d(6, 2, 1), nn.Flatten()),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 2)),
        Twice,
    ],
)
def test_refuses_networks_that_do_not_end_in_a_plain_linear_layer(end: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model = Model(end(), input_shape=(6,), classes=CLASSES, bounds=None)
    with pytest.raises(ModelError, match=r"one plain torch\.nn\.Linear layer at its end"):
        ExpertMitigation()(model, gaussian_data(), seed=0)


def test_refuses_an_activation_that_shows_only_on_the_data() -> None:
    """On the probe, all logits are positive and the ReLU does nothing."""
    model = Model(nn.Sequential(nn.Linear(6, 2), nn.ReLU()), input_shape=(6,), classes=CLASSES, bounds=None)
    with torch.no_grad():
        layer = model.module.get_submodule("0")
        assert isinstance(layer, nn.Linear)
        layer.bias.fill_(3.0)
    data = gaussian_data()
    far = Data(data.x * 20, data.y, data.classes)
    with pytest.raises(ModelError, match="not always those of its linear layer"):
        ExpertMitigation()(model, far, seed=0)


def test_refuses_shared_weights() -> None:
    torch.manual_seed(0)
    model = Model(Tied(), input_shape=(6,), classes=6, bounds=None)
    data = Data(gaussian_data().x, torch.arange(200) % 6, model.classes)
    with pytest.raises(ModelError, match="shares its weights with an earlier layer"):
        SparseMitigation()(model, data, seed=0)


def test_refuses_what_it_cannot_do() -> None:
    model, data = drawn_network(), gaussian_data()
    many = drawn_network(outputs=3)
    with pytest.raises(InputError, match="defined for two classes; the model has 3"):
        ExpertMitigation()(many, Data(data.x, torch.arange(200) % 3, many.classes), seed=0)
    with pytest.raises(InputError, match="two or more classes"):
        ExpertMitigation()(model, data.of_class("most"), seed=0)
    with pytest.raises(InputError, match="'strength' parameter"):
        SparseMitigation(strength=0.0)(model, data, seed=0)
    without = Model(nn.Linear(6, 2, bias=False), input_shape=(6,), classes=CLASSES, bounds=None)
    with pytest.raises(InputError, match="has no bias, which would have to take up"):
        ParityMitigation()(without, data, seed=0)
