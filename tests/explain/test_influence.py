"""Influence is what definition 3.2 says, by finite differences and by another library, and behaves well."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from captum.attr import IntegratedGradients, InternalInfluence, LayerIntegratedGradients, NoiseTunnel, Saliency
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from explain.networks import CLASSES, Offsets, noise, seeded, smooth_network, tabular
from modelkeep import Data, Model, Preprocessing
from modelkeep.core.errors import InputError, ModelError, SliceError
from modelkeep.core.nest import Leaf, Nest
from modelkeep.explain import (
    ClassScore,
    Contrast,
    Distribution,
    Explained,
    Gaussian,
    Influence,
    Line,
    OfLogits,
    Point,
)

# Independent answers.


@given(seed=st.integers(0, 20), widths=st.lists(st.integers(1, 6), max_size=3).map(tuple))
def test_agrees_with_finite_differences(seed: int, widths: tuple[int, ...]) -> None:
    model, x = smooth_network(seed, widths), noise(2, 4, seed=seed, dtype=torch.float64)
    found = Influence(quantity=ClassScore("dog"), distribution=Offsets((0.0, 0.4)))(model, x, seed=0).influence
    for unit in range(4):
        step = 1e-5 * torch.eye(4, dtype=torch.float64)[unit]
        slopes = [(model.logits(x + o + step) - model.logits(x + o - step))[:, 1] / 2e-5 for o in (0.0, 0.4)]
        torch.testing.assert_close(found[:, unit], (slopes[0] + slopes[1]) / 2, atol=1e-8, rtol=1e-6)


@pytest.fixture
def cnn_and_inputs(small_cnn: Model) -> tuple[Model, torch.Tensor, torch.Tensor]:
    x = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(3))
    return small_cnn, x, small_cnn.predict(x)


def test_equals_captum_at_the_input(cnn_and_inputs: tuple[Model, torch.Tensor, torch.Tensor]) -> None:
    model, x, labels = cnn_and_inputs
    leaf = x.clone().requires_grad_()
    saliency = Saliency(model.forward).attribute(leaf, target=labels, abs=False)
    torch.testing.assert_close(Influence()(model, x, seed=0).influence, saliency)

    integrated, delta = IntegratedGradients(model.forward).attribute(
        x, 0.25, target=2, n_steps=20, method="riemann_middle", return_convergence_delta=True
    )
    ours = Influence(quantity=ClassScore("two"), distribution=Line(0.25, count=20))(model, x, seed=0)
    assert ours.attribution is not None
    assert ours.gap is not None
    torch.testing.assert_close(ours.attribution, integrated.float(), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(ours.gap, delta.float(), atol=1e-5, rtol=1e-3)


def test_equals_captum_at_an_inner_slice(cnn_and_inputs: tuple[Model, torch.Tensor, torch.Tensor]) -> None:
    model, x, _ = cnn_and_inputs
    assert isinstance(model.module, nn.Sequential)
    settings = {"target": 2, "n_steps": 20, "method": "riemann_middle"}
    theirs = InternalInfluence(model.forward, model.module[2]).attribute(x, 0.25, **settings)
    ours = Influence(slice="2", quantity=ClassScore("two"), distribution=Line(0.25, count=20))(model, x, seed=0)
    torch.testing.assert_close(ours.influence, theirs.float(), atol=1e-6, rtol=1e-4)

    theirs = LayerIntegratedGradients(model.forward, model.module[2]).attribute(x, 0.25, **settings)
    origin = model.slice("2").h(torch.full_like(x[:1], 0.25)).value[0].detach()
    line = Line(origin, count=20, at="slice")
    ours = Influence(slice="2", quantity=ClassScore("two"), distribution=line)(model, x, seed=0)
    assert ours.attribution is not None
    torch.testing.assert_close(ours.attribution, theirs.float(), atol=1e-6, rtol=1e-4)


def test_a_gaussian_comes_near_captums_smoothgrad(cnn_and_inputs: tuple[Model, torch.Tensor, torch.Tensor]) -> None:
    """Other draws, so only near: as near as two halves of our own draws are to each other."""
    model, x, _ = cnn_and_inputs
    torch.manual_seed(0)
    smooth = NoiseTunnel(Saliency(model.forward))
    theirs = smooth.attribute(x, nt_samples=400, nt_samples_batch_size=50, stdevs=0.5, target=2, abs=False)
    ours, other = (
        Influence(quantity=ClassScore("two"), distribution=Gaussian(0.5, count=400))(model, x, seed=seed).influence
        for seed in (1, 2)
    )
    assert (ours - theirs).norm() < 1.5 * (ours - other).norm()
    assert (ours - other).norm() < 0.2 * ours.norm()


# The line.


def test_the_gap_is_what_attribution_misses_and_goes_to_zero(
    cnn_and_inputs: tuple[Model, torch.Tensor, torch.Tensor],
) -> None:
    model, x, labels = cnn_and_inputs
    gaps = []
    for count in (1, 10, 100):
        found = Influence(distribution=Line(0.0, count=count))(model, x, seed=0)
        assert found.attribution is not None
        assert found.gap is not None
        change = (model.logits(x) - model.logits(torch.zeros_like(x))).gather(1, labels[:, None])[:, 0]
        torch.testing.assert_close(found.attribution.flatten(1).sum(dim=1) - change, found.gap)
        gaps.append(float(found.gap.abs().max()))
    assert gaps[0] > 1e-4
    assert gaps[2] < gaps[0] / 10


def test_a_line_at_a_slice_with_a_skip_connection_is_efficient_with_the_skip_held() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.top = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.top(x + self.inner(x))  # type: ignore[no-any-return]

    module = Residual()
    model, x = tabular(seeded(module, 2)), noise(5, 4)
    line = Line(0.0, count=2, at="slice")
    found = Influence(slice="inner", quantity=ClassScore("cat"), distribution=line)(model, x, seed=0)
    assert found.attribution is not None
    assert found.gap is not None
    weights = module.top.weight[0].detach()  # not those of the skip: it is held fixed
    torch.testing.assert_close(found.influence, weights.expand(5, -1))
    torch.testing.assert_close(found.attribution, weights * module.inner(x).detach())
    torch.testing.assert_close(found.gap, torch.zeros(5), atol=1e-5, rtol=0)


def test_the_predicted_class_is_that_of_the_point_all_along_the_line() -> None:
    layer = nn.Linear(1, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[5.0], [-2.0], [0.0]]))
        layer.bias.zero_()
    model = tabular(layer, inputs=1)
    found = Influence(distribution=Line(-9.0, count=10))(model, torch.tensor([[1.0]]), seed=0)
    assert model.predict(torch.tensor([[-9.0]])) == 1
    assert found.influence.item() == pytest.approx(5.0)


# Cost.


@pytest.mark.parametrize("place", ["input", "2"])
@pytest.mark.parametrize("distribution", [Point(), Line(0.0, count=7), Gaussian(0.1, count=4)], ids=str)
def test_the_batch_size_does_not_matter(small_cnn: Model, place: str, distribution: Distribution) -> None:
    x = torch.rand(7, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    whole, single, three = (
        Influence(slice=place, distribution=distribution, batch_size=size)(small_cnn, x, seed=5) for size in (64, 1, 3)
    )
    for other in (single, three):
        torch.testing.assert_close(other.influence, whole.influence, atol=1e-7, rtol=1e-4)
        assert torch.equal(other.predicted, whole.predicted)


def test_takes_no_more_passes_than_samples_and_both_ends(small_cnn: Model) -> None:
    passes = {"forward": 0, "backward": 0}

    def counted(_: torch.Tensor) -> None:
        passes["backward"] += 1

    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = small_cnn.module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.inner(x)
            if len(x) == 5:  # the slice tries itself out on two inputs
                passes["forward"] += 1
                if logits.requires_grad:
                    logits.register_hook(counted)  # type: ignore[no-untyped-call]
            return logits

    model = Model(Counted(), input_shape=(1, 8, 8), classes=4)
    Influence(distribution=Line(0.0, count=11), batch_size=5)(model, torch.rand(15, 1, 8, 8), seed=0)
    # The point and the baseline are two more, and the first real batch is compared with the network once.
    assert passes == {"forward": 3 * (11 + 2) + 1, "backward": 3 * 11}


def test_samples_are_not_kept(small_cnn: Model) -> None:
    """Memory does not grow with the number of samples: hardly any of them is alive at a time."""
    most = 0

    @dataclass(frozen=True)
    class Watched(Offsets):
        def samples(self, centre: torch.Tensor, seed: int) -> Iterator[torch.Tensor]:
            nonlocal most
            alive: weakref.WeakSet[Any] = weakref.WeakSet()
            for sample in super().samples(centre, seed):
                alive.add(sample)
                most = max(most, len(alive))
                yield sample

    Influence(distribution=Watched((0.1,) * 30))(small_cnn, torch.rand(3, 1, 8, 8), seed=0)
    assert 0 < most <= 3


# Behaviour.


def test_preprocessing_is_a_part_of_the_model() -> None:
    layer = nn.Linear(4, 3)
    model = Model(seeded(layer, 1), input_shape=(4,), classes=CLASSES, preprocessing=Preprocessing((0.5,), (0.25,)))
    found = Influence(quantity=ClassScore("cat"))(model, torch.rand(2, 4), seed=0)
    torch.testing.assert_close(found.influence, (layer.weight[0].detach() / 0.25).expand(2, -1))


def test_layers_that_work_in_place_give_the_same_answer() -> None:
    def network(inplace: bool) -> Model:
        layers = [nn.ReLU(inplace), nn.Linear(4, 5), nn.ReLU(inplace), nn.Linear(5, 3)]
        return tabular(seeded(nn.Sequential(*layers), 3))

    x = noise(6, 4)
    kept = x.clone()
    for place in ("input", "1"):
        plain, in_place = (
            Influence(slice=place, distribution=Line(-1.0, count=3))(network(i), x, seed=0).influence
            for i in (False, True)
        )
        assert torch.equal(plain, in_place)
    assert torch.equal(x, kept)


def test_seeds_choose_the_noise_and_company_does_not(small_cnn: Model) -> None:
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    first, second = (Influence(distribution=Gaussian(0.2, count=3))(small_cnn, x, seed=s) for s in (1, 2))
    alone = Influence(distribution=Gaussian(0.2, count=3))(small_cnn, x[2:3], seed=1)
    assert not torch.allclose(first.influence, second.influence)
    torch.testing.assert_close(alone.influence[0], first.influence[2], atol=1e-7, rtol=1e-4)


def test_works_where_gradients_are_switched_off(small_cnn: Model) -> None:
    with torch.no_grad():
        assert Influence()(small_cnn, torch.rand(2, 1, 8, 8), seed=0).influence.abs().sum() > 0


def test_names_are_looked_up_before_the_work_and_nothing_falls_back(small_cnn: Model) -> None:
    x = torch.rand(2, 1, 8, 8)

    def explain(**settings: Any) -> Explained:
        return Influence(**settings)(small_cnn, x, seed=0)

    with pytest.raises(InputError, match="no class 'nine'"):
        explain(quantity=ClassScore("nine"))
    with pytest.raises(InputError, match="no class 'nine'"):
        explain(quantity=Contrast("one", "nine"))
    with pytest.raises(SliceError, match="conv9"):
        explain(slice="conv9")
    with pytest.raises(InputError, match=r"\(1, 8, 8\).*Got shape \(64,\)"):
        explain(distribution=Line(torch.zeros(64)))
    with pytest.raises(InputError, match=r"\(4, 4, 4\)"):
        explain(slice="2", distribution=Line(torch.zeros(1, 8, 8), at="slice"))
    with pytest.raises(InputError, match=r"one number per example.*Got \(2, 4\)"):
        explain(quantity=OfLogits("all", lambda logits: logits))
    with pytest.raises(InputError, match="differentiable"):
        explain(quantity=OfLogits("label", lambda logits: logits.argmax(dim=1).float()))
    with pytest.raises(ModelError, match="NaN or infinite"):
        explain(quantity=OfLogits("root", lambda logits: (logits * 0).sum(dim=1).sqrt()))
    with pytest.raises(InputError, match="'batch_size'"):
        explain(batch_size=0)


def test_a_module_that_is_called_twice_needs_a_call() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.top = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.top(self.inner(torch.tanh(self.inner(x))))  # type: ignore[no-any-return]

    model, x = tabular(seeded(Twice(), 0)), noise(2, 4)
    with pytest.raises(SliceError, match="called 2 times"):
        Influence(slice="inner")(model, x, seed=0)
    first, second = (Influence(slice="inner", call=i)(model, x, seed=0).influence for i in (0, 1))
    assert not torch.allclose(first, second)


def test_data_must_be_the_models(small_cnn: Model) -> None:
    other = Data(torch.rand(2, 1, 8, 8), torch.tensor([0, 1]), ("a", "b", "c", "d"))
    with pytest.raises(InputError, match="classes"):
        Influence()(small_cnn, other, seed=0)


def test_token_ids_have_no_influence_and_the_embedding_is_named() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(9, 3), nn.Linear(3, 2)

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.head(self.words(input_ids).mean(dim=1))
            return logits

    model = Model(Words(), inputs=Nest((Leaf("input_ids", (4,), "token", 9),)), classes=2)
    ids = torch.tensor([[1.0, 2.0, 3.0, 0.0]])
    with pytest.raises(InputError, match=r"Influence\(slice='words'\)"):
        Influence()(model, ids)
    assert Influence(slice="words")(model, ids).influence.shape == (1, 4, 3)
