"""Distributions of interest: data sets, given points and samplers mean what they say, and refuse what means nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from explain.networks import CLASSES, noise, smooth_network, tabular
from modelkeep import Data
from modelkeep.core.errors import InputError
from modelkeep.explain import (
    ClassScore,
    Contrast,
    DataSet,
    Distribution,
    Gaussian,
    Influence,
    Line,
    Path,
    Points,
    PredictedScore,
    Sampler,
)

WHY = ClassScore("dog")


def three_classes() -> Data:
    return Data(noise(9, 4), torch.tensor([0, 1, 2] * 3), CLASSES)


def test_a_data_set_is_explained_as_one() -> None:
    """Equation 3.2: the mean over the points; of the predicted class, that of each point."""
    model, data = smooth_network(1), three_classes()
    for quantity in (WHY, PredictedScore()):
        each = Influence(slice="0", quantity=quantity)(model, data, seed=0)
        whole = Influence(slice="0", quantity=quantity, distribution=DataSet(), batch_size=2)(model, data, seed=0)
        assert whole.influence.shape == (1, *each.influence.shape[1:])
        torch.testing.assert_close(whole.influence, each.influence.mean(dim=0, keepdim=True), check_dtype=False)
        torch.testing.assert_close(whole.activation, each.activation.mean(dim=0, keepdim=True), check_dtype=False)
        torch.testing.assert_close(whole.values, each.values.mean(dim=0, keepdim=True), check_dtype=False)
        assert whole.predicted.tolist() == [int(each.predicted.bincount().argmax())]
        assert (whole.examples, each.examples) == (9, 9)


def test_a_class_of_a_data_set_is_named() -> None:
    model, data = smooth_network(1), three_classes()
    dogs = Influence(quantity=WHY, distribution=DataSet(of="dog"))(model, data, seed=0)
    alone = Influence(quantity=WHY, distribution=DataSet())(model, data.of_class("dog"), seed=0)
    assert torch.equal(dogs.influence, alone.influence)
    assert (dogs.examples, dogs.distribution) == (3, "the examples of 'dog'")
    with pytest.raises(InputError, match="no class 'bird'"):
        Influence(distribution=DataSet(of="bird"))(model, data, seed=0)
    with pytest.raises(InputError, match="no example of 'cat'"):
        Influence(distribution=DataSet(of="cat"))(model, data.of_class("dog"), seed=0)
    with pytest.raises(InputError, match="without labels"):
        Influence(distribution=DataSet(of="dog"))(model, data.x, seed=0)


def test_given_points_are_the_same_for_every_example() -> None:
    model, x = smooth_network(2), noise(3, 4, dtype=torch.float64)
    given = noise(5, 4, seed=9, dtype=torch.float64)
    found = Influence(quantity=WHY, distribution=Points(given))(model, x, seed=0)
    wanted = Influence(quantity=WHY)(model, given, seed=0).influence.mean(dim=0)
    torch.testing.assert_close(found.influence, wanted.expand(3, -1))
    # By the preprocessing axiom it does not matter whether they are given at the input or at the slice.
    inner = model.slice("1").h(given).value.detach()
    at_slice = Influence(slice="1", quantity=WHY, distribution=Points(inner, at="slice"))(model, x, seed=0)
    at_input = Influence(slice="1", quantity=WHY, distribution=Points(given))(model, x, seed=0)
    torch.testing.assert_close(at_slice.influence, at_input.influence)


def test_any_sampler_will_do() -> None:
    """A Gaussian drawn by the user's own function is the built-in one."""
    model, x = smooth_network(3), noise(3, 4, dtype=torch.float64)

    def noisy(centre: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return centre + 0.3 * torch.randn(centre.shape[1:], generator=generator, dtype=centre.dtype)

    for at in ("input", "slice"):
        own = Sampler("noise", noisy, count=7, at=at)
        ours, theirs = (
            Influence(slice="0", quantity=WHY, distribution=d)(model, x, seed=5) for d in (own, Gaussian(0.3, 7, at))
        )
        assert torch.equal(ours.influence, theirs.influence)
    assert ours.distribution == "noise at the slice, 7 draws"


def test_a_path_follows_the_slice() -> None:
    """Conductance in slow motion; at the input a path is the line, and everywhere it is efficient."""
    model, x = smooth_network(4, (5, 3)), noise(3, 4, dtype=torch.float64)
    quantity = Contrast("dog", "cat")
    line, path = (
        Influence(quantity=quantity, distribution=d)(model, x, seed=0) for d in (Line(0.2, 20), Path(0.2, 20))
    )
    assert line.attribution is not None
    assert path.attribution is not None
    torch.testing.assert_close(path.attribution, line.attribution)
    for place in ("0", "1", "2"):
        found = Influence(slice=place, quantity=quantity, distribution=Path(0.2, 200))(model, x, seed=0)
        assert found.gap is not None
        assert float(found.gap.abs().max()) < 1e-4
        assert isinstance(model.module, nn.Sequential)
        below, above = model.module[: int(place) + 1], model.module[int(place) + 1 :]
        slow = torch.zeros_like(found.influence)
        for i in range(200):
            a, mid, b = (below(torch.lerp(torch.full_like(x, 0.2), x, (i + k) / 200)).detach() for k in (0, 0.5, 1))
            z = mid.requires_grad_()
            logits = above(z)
            slow += torch.autograd.grad((logits[:, 1] - logits[:, 0]).sum(), z)[0] * (b - a)
        torch.testing.assert_close(found.attribution, slow)


def test_what_is_kept_of_a_data_set_does_not_grow_with_it() -> None:
    model = tabular(nn.Linear(4, 3))
    few, many = (Influence(distribution=DataSet())(model, noise(n, 4), seed=0) for n in (2, 500))
    assert len(few.to_json()) == pytest.approx(len(many.to_json()), abs=50)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Line(0.0, count=0),
        lambda: Line(float("nan")),
        lambda: Line(torch.tensor([math.inf])),
        lambda: Line(0.0, at="output"),  # type: ignore[arg-type]
        lambda: Path(0.0, at="slice"),
        lambda: Gaussian(0.0),
        lambda: Gaussian(math.inf),
        lambda: Gaussian(0.1, count=0),
        lambda: Points(torch.zeros(0, 4)),
        lambda: Points(torch.full((1, 4), math.nan)),
        lambda: Sampler("none", lambda x, _: x, count=0),
    ],
)
def test_distributions_refuse_senseless_settings(make: Callable[[], Distribution]) -> None:
    with pytest.raises(InputError, match=r"parameter of (Line|Path|Gaussian|Points|Sampler) must be"):
        make()


def test_samples_of_the_wrong_kind_are_refused() -> None:
    model, x = smooth_network(0), noise(3, 4, dtype=torch.float64)
    with pytest.raises(InputError, match=r"Points at the input must have the shape \(count, \*\(4,\)\). Got \(2, 5\)"):
        Influence(distribution=Points(torch.zeros(2, 5)))(model, x, seed=0)
    with pytest.raises(
        InputError, match=r"The sampler 'half' must give one finite sample per point, \(3, 4\). Got \(1, 4"
    ):
        Influence(distribution=Sampler("half", lambda x, _: x[:1]))(model, x, seed=0)
    with pytest.raises(InputError, match=r"The sampler 'log' must give one finite sample per point.* Got NaN"):
        Influence(distribution=Sampler("log", lambda x, _: x.log()))(model, x, seed=0)
