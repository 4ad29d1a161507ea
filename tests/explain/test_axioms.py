"""The axioms that single internal influence out (Leino2022, section 4.1), as properties of drawn networks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from explain.networks import CLASSES, Offsets, noise, seeded, smooth_network, tabular
from modelkeep import Data, Model
from modelkeep.explain import (
    AgainstAll,
    ClassScore,
    Contrast,
    DataSet,
    Distribution,
    Gaussian,
    Influence,
    Line,
    OfLogits,
    Point,
    Points,
    PredictedScore,
    Quantity,
    Sampler,
    Unit,
)

DISTRIBUTIONS: list[Distribution] = [
    Point(),
    DataSet(),
    Line(0.5, count=3),
    Line(torch.tensor([1.0, 0.0, -1.0, 2.0]), count=4),
    Gaussian(0.3, count=5),
    Points(torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]])),
    Sampler("shuffled", lambda x, g: x[torch.randperm(len(x), generator=g)], count=3),
    Offsets((0.0, 2.0)),
]
QUANTITIES: list[Quantity] = [
    ClassScore("eel"),
    Contrast("eel", "cat"),
    AgainstAll("dog"),
    PredictedScore(),
    OfLogits("mean", lambda logits: logits.mean(dim=1)),
]
drawn_distributions = st.sampled_from(DISTRIBUTIONS)
drawn_quantities = st.sampled_from(QUANTITIES)
widths = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)


def coefficients(quantity: Quantity, w: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The slope of the quantity for logits W x + b, written down by hand."""
    by_name = {
        "class 'eel'": w[2],
        "class 'eel' rather than 'cat'": w[2] - w[0],
        "class 'dog' rather than the others": w[1] - (w[0] + w[2]) / 2,
        "mean": w.mean(dim=0),
    }
    return w[labels] if str(quantity) == "predicted class" else by_name[str(quantity)].expand(len(labels), -1)


@given(seed=st.integers(0, 1000), quantity=drawn_quantities, distribution=drawn_distributions)
def test_linear_agreement(seed: int, quantity: Quantity, distribution: Distribution) -> None:
    """Axiom 4.1: for a linear quantity, the influence is the coefficient, whatever the distribution."""
    layer = nn.Linear(4, 3)
    model = tabular(seeded(layer, seed))
    x = noise(6, 4, seed=seed)
    found = Influence(quantity=quantity, distribution=distribution)(model, x, seed=seed)
    wanted = coefficients(quantity, layer.weight.detach(), model.predict(x))
    if isinstance(distribution, DataSet):
        wanted = wanted.mean(dim=0, keepdim=True)
    torch.testing.assert_close(found.influence, wanted)


class Elsewhere(nn.Module):
    """The same network, except that far away it has another slope."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.inner(x)
        return logits + 7 * torch.relu(x[:, :1] - 100) * torch.arange(3, dtype=x.dtype)


@given(seed=st.integers(0, 1000), widths=widths, quantity=drawn_quantities, distribution=drawn_distributions)
def test_distributional_marginality(
    seed: int, widths: tuple[int, ...], quantity: Quantity, distribution: Distribution
) -> None:
    """Axiom 4.2: networks whose slopes are the same on the distribution have the same influences."""
    here = smooth_network(seed, widths)
    x = noise(5, 4, seed=seed, dtype=torch.float64)
    there = tabular(Elsewhere(here.module))
    assert not torch.equal(here.logits(x + 1000), there.logits(x + 1000))
    one, other = (Influence(quantity=quantity, distribution=distribution)(m, x, seed=0) for m in (here, there))
    torch.testing.assert_close(one.influence, other.influence, atol=0, rtol=1e-12)


@given(seed=st.integers(0, 1000), widths=widths, offsets=st.lists(st.floats(-2, 2), min_size=1, max_size=5))
def test_distributional_linearity(seed: int, widths: tuple[int, ...], offsets: list[float]) -> None:
    """Axiom 4.3: a mixture's influence is the mixture of the influences."""
    model, x = smooth_network(seed, widths), noise(3, 4, dtype=torch.float64)
    mixed = Influence(quantity=ClassScore("cat"), distribution=Offsets(tuple(offsets)))(model, x, seed=0)
    single = [Influence(quantity=ClassScore("cat"))(model, x + o, seed=0).influence for o in offsets]
    torch.testing.assert_close(mixed.influence, torch.stack(single).mean(dim=0))


@given(seed=st.integers(0, 1000), widths=widths, sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)))
def test_a_data_set_is_the_mixture_of_its_classes(seed: int, widths: tuple[int, ...], sizes: tuple[int, int]) -> None:
    """Axiom 4.3 for data: each class weighs as much as it has examples, in batches of any size."""
    cats, dogs = sizes
    model = smooth_network(seed, widths)
    data = Data(noise(cats + dogs, 4, seed=seed), torch.tensor([0] * cats + [1] * dogs), CLASSES)
    whole, cat, dog = (
        Influence(quantity=ClassScore("eel"), distribution=DataSet(of), batch_size=3)(model, data, seed=0).influence
        for of in (None, "cat", "dog")
    )
    torch.testing.assert_close(whole, (cats * cat + dogs * dog) / (cats + dogs))


@pytest.mark.parametrize("distribution", [Offsets((0.0, 0.3, -0.7), at="slice"), Gaussian(0.2, 4, at="slice")], ids=str)
@given(seed=st.integers(0, 1000), widths=widths, quantity=drawn_quantities, data=st.data())
def test_preprocessing(
    seed: int, widths: tuple[int, ...], quantity: Quantity, data: st.DataObject, distribution: Distribution
) -> None:
    """Axiom 4.4: the influence at a slice is the input influence of the rest of the network, at every place."""
    model, x = smooth_network(seed, widths), noise(3, 4, dtype=torch.float64)
    assert isinstance(model.module, nn.Sequential)
    place = data.draw(st.integers(0, len(model.module) - 2))
    z = model.module[: place + 1](x).detach()
    rest = Model(model.module[place + 1 :], input_shape=z.shape[1:], classes=CLASSES, bounds=None)
    inner = Influence(slice=str(place), quantity=quantity, distribution=distribution)(model, x, seed=seed)
    outer = Influence(quantity=quantity, distribution=distribution)(rest, z, seed=seed)
    torch.testing.assert_close(inner.influence, outer.influence)


@given(seed=st.integers(0, 1000), widths=widths, data=st.data())
def test_the_axioms_hold_for_inner_quantities_too(seed: int, widths: tuple[int, ...], data: st.DataObject) -> None:
    """A unit of an inner layer is the output of a network of its own (section 3.3)."""
    model, x = smooth_network(seed, widths), noise(3, 4, dtype=torch.float64)
    assert isinstance(model.module, nn.Sequential)
    place = data.draw(st.integers(0, len(model.module) - 1))
    before = model.module[: place + 1]
    unit = data.draw(st.integers(0, before(x).shape[1] - 1))
    found = Influence(quantity=Unit(str(place), unit), distribution=Offsets((0.0, 0.5)))(model, x, seed=0)
    leaves = [(x + o).requires_grad_() for o in (0.0, 0.5)]
    slopes = [torch.autograd.grad(before(leaf)[:, unit].sum(), leaf)[0] for leaf in leaves]
    torch.testing.assert_close(found.influence, (slopes[0] + slopes[1]) / 2)
    torch.testing.assert_close(found.values, before(x)[:, unit].detach())


@given(seed=st.integers(0, 1000), widths=widths, quantity=drawn_quantities)
def test_efficiency_of_the_line(seed: int, widths: tuple[int, ...], quantity: Quantity) -> None:
    """Section 3.1: attributions sum to the change of the quantity; the reported gap is exactly what is missing."""
    model, x = smooth_network(seed, widths), noise(3, 4, seed=seed, dtype=torch.float64)
    gaps = []
    for count in (10, 100):
        found = Influence(quantity=quantity, distribution=Line(0.1, count))(model, x, seed=0)
        assert found.attribution is not None
        assert found.gap is not None
        score, labels = quantity.score(model), model.predict(x)
        change = score(model.logits(x), labels) - score(model.logits(torch.full_like(x, 0.1)), labels)
        torch.testing.assert_close(found.attribution.sum(dim=1) - found.gap, change)
        gaps.append(float(found.gap.abs().max()))
    # The midpoint rule on a smooth function: ten times the points, a hundredth of the error.
    assert gaps[1] <= gaps[0] / 50 + 1e-12
