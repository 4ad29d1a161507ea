"""A planted concept is found and significant; one that is not there, or that nothing depends on, is not."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import binom
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.core import plots
from modelkeep.core.errors import InputError, SliceError
from modelkeep.explain import ClassScore
from modelkeep.explain.meaning.concept_sensitivity import TCAV, Sensitivity, holm
from modelkeep.explain.meaning.concepts import Concept, learn_concept, ridge

UNITS = 12


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def linear(weight: torch.Tensor) -> Model:
    """A network whose hidden units are its inputs, and whose first logit weighs them as given."""
    output = nn.Linear(UNITS, 2, bias=False)
    with torch.no_grad():
        output.weight.copy_(torch.stack([weight, torch.zeros(UNITS)]))
    return Model(nn.Sequential(nn.Identity(), output), input_shape=(UNITS,), classes=("cat", "dog"), bounds=None)


@pytest.fixture
def direction() -> torch.Tensor:
    return nn.functional.normalize(noise(UNITS, seed=7), dim=0)


def planted(model: Model, direction: torch.Tensor, n: int = 60, shift: float = 3.0, seed: int = 0) -> Concept:
    examples = noise(n, UNITS, seed=2 * seed) + shift * direction
    return learn_concept(model, examples, noise(n, UNITS, seed=2 * seed + 1), slice="0", name="stripes", seed=seed)


def test_a_planted_direction_is_recovered(direction: torch.Tensor) -> None:
    found = planted(linear(direction), direction, n=600)
    assert float(nn.functional.cosine_similarity(found.vector.float(), direction, dim=0)) > 0.97
    assert found.there
    # The best classifier of two unit Gaussians at distance 3 is right in Φ(1.5) of the cases.
    assert found.accuracy.low < 0.9332 < found.accuracy.high


def test_a_quantity_that_depends_on_it_is_significant(direction: torch.Tensor) -> None:
    model = linear(direction)
    stripes = planted(model, direction)
    (up,) = TCAV(concepts=[stripes], quantity=ClassScore("cat"))(model, noise(40, UNITS), seed=0).concepts
    assert up.verdict == "raises it"
    assert up.score.value == 1
    assert up.p_value == 0.001
    model = linear(-direction)
    (down,) = TCAV(concepts=[planted(model, direction)], quantity=ClassScore("cat"))(
        model, noise(40, UNITS), seed=0
    ).concepts
    assert down.verdict == "lowers it"
    assert down.slope.value == pytest.approx(-up.slope.value)


def test_units_of_other_sizes_give_the_same_answer(direction: torch.Tensor) -> None:
    """The second network computes the same from activations that are a thousand times larger or smaller."""
    size = 10 ** torch.linspace(-3, 3, UNITS)
    found: list[Sensitivity] = []
    for scale in (torch.ones(UNITS), size):
        model = linear(direction / scale)
        examples, others = (noise(60, UNITS) + 3 * direction) * scale, noise(60, UNITS, seed=1) * scale
        stripes = learn_concept(model, examples, others, slice="0", name="stripes", seed=0)
        found += TCAV(concepts=[stripes], quantity=ClassScore("cat"))(model, noise(9, UNITS), seed=0).concepts
    assert found[0].accuracy == found[1].accuracy
    assert found[0].slope.value == pytest.approx(found[1].slope.value, rel=1e-4)
    assert found[0].p_value == found[1].p_value == 0.001


def test_the_slope_is_the_directional_derivative(direction: torch.Tensor) -> None:
    weight = noise(UNITS, seed=3)
    stripes = planted(linear(weight), direction)
    (found,) = TCAV(concepts=[stripes], quantity=ClassScore("cat"))(linear(weight), noise(9, UNITS), seed=0).concepts
    assert found.slope.value == pytest.approx(float(weight.double() @ stripes.vector))


def test_a_concept_that_nothing_depends_on_is_not_claimed(direction: torch.Tensor) -> None:
    weight = noise(UNITS, seed=1)
    weight -= (weight @ direction) * direction
    model = linear(weight)
    stripes = planted(model, direction, n=300)
    (found,) = TCAV(concepts=[stripes], quantity=ClassScore("cat"))(model, noise(40, UNITS), seed=0).concepts
    assert stripes.there
    assert found.verdict == "not significant"
    assert not found.significant


def test_noise_is_rarely_called_a_concept_and_its_p_values_are_uniform(direction: torch.Tensor) -> None:
    """Where the labels say nothing the test is exact, so 5 % of 200 p-values may be below 5 %."""
    model = linear(direction)
    runs, low, there, claimed = 200, 0, 0, 0
    for seed in range(runs):
        nothing = planted(model, direction, n=30, shift=0.0, seed=seed)
        (found,) = TCAV(concepts=[nothing], quantity=ClassScore("cat"), permutations=99)(
            model, noise(9, UNITS), seed=seed
        ).concepts
        low += found.p_value <= 0.05
        there += nothing.there
        claimed += found.significant
    assert binom.ppf(0.001, runs, 0.05) <= low <= binom.ppf(0.999, runs, 0.05)
    assert there <= binom.ppf(0.999, runs, 0.025)  # one side of a 95 % interval
    assert claimed <= 3


def test_several_concepts_are_corrected_for_their_number(direction: torch.Tensor) -> None:
    model = linear(direction)
    concepts = [planted(model, direction), planted(model, direction, shift=0.0, seed=3), planted(model, direction)]
    found = TCAV(concepts=concepts, quantity=ClassScore("cat"))(model, noise(40, UNITS), seed=0).concepts
    assert [c.adjusted for c in found] == holm([c.p_value for c in found])
    assert found[0].adjusted == pytest.approx(0.003)
    assert found[1].verdict == "not linearly there"


def test_holm_is_bonferroni_for_the_smallest() -> None:
    assert holm([0.5, 0.001, 0.2, 0.02]) == [0.5, 0.004, 0.4, 0.06]
    assert holm([0.9]) == [0.9]


def test_weights_are_those_of_ridge_regression() -> None:
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import StandardScaler

    pool = (noise(20, 30) * torch.arange(1, 31)).double()
    pool[:, 4] = 2.0  # a unit that never varies
    labels = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(10)
    scaler = StandardScaler().fit(pool)
    weights = Ridge(alpha=2.0).fit(scaler.transform(pool), labels).coef_
    torch.testing.assert_close(ridge(pool, labels[:, None])[:, 0], torch.from_numpy(weights))


def test_channels_of_a_feature_map_are_averaged_over_positions(small_cnn: Model) -> None:
    """Bright against dark: the slope along the concept is the change when it is added at all positions."""
    bright, dark = 0.5 + noise(30, 1, 8, 8).sigmoid() / 2, noise(30, 1, 8, 8, seed=1).sigmoid() / 2
    light = learn_concept(small_cnn, bright, dark, slice="2", name="light", seed=0)
    assert light.vector.shape == (4,)
    assert light.there
    data = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    (found,) = TCAV(concepts=[light], quantity=ClassScore("two"))(small_cnn, data, seed=0).concepts
    cut = small_cnn.slice("2")
    with torch.no_grad():
        here = cut.h(data)
        step = 1e-3 * light.vector.float()[None, :, None, None]
        change = (cut.g(here.replace(here.value + step)) - cut.g(here.replace(here.value - step)))[:, 2] / 2e-3
    assert found.slope.value == pytest.approx(float(change.mean()), rel=0.02)


def test_each_unit_tells_how_well_it_alone_separates() -> None:
    model = linear(torch.ones(UNITS))
    examples, others = noise(50, UNITS), noise(50, UNITS, seed=1)
    examples[:, 0] += 9
    examples[:, 1] -= 9
    examples[:, 2] = others[:, 2] = 0
    found = learn_concept(model, examples, others, slice="0", name="c", seed=0)
    assert found.unit(0).value == 1
    assert found.unit(1).value == 0
    assert found.unit(2).value == 0.5
    assert not found.unit(5).excludes(0.5)
    assert "unit 0 1.00" in dict(found.rows())["units that tell it"]


def test_reads_stores_and_draws_itself(direction: torch.Tensor) -> None:
    model = linear(direction)
    stripes = planted(model, direction)
    again = Result.from_json(stripes.to_json())
    assert isinstance(again, Concept)
    data = Data(noise(40, UNITS), torch.arange(40) % 2, ("cat", "dog"))
    found = TCAV(concepts=[again], quantity=ClassScore("cat"))(model, data, seed=0)
    assert found.provenance.data == data.fingerprint()
    assert Result.from_json(found.to_json()).to_json() == found.to_json()
    assert dict(found.rows())["stripes"].startswith("raises it (score 1.000")
    assert plots.png_bytes(found.draw()).startswith(b"\x89PNG")


def test_what_cannot_be_used_is_refused(direction: torch.Tensor) -> None:
    model, x = linear(direction), noise(9, UNITS)
    with pytest.raises(InputError, match=r"'others' parameter of learn_concept must be at least 6 inputs\. Got 5"):
        learn_concept(model, x, x[:5], slice="0", name="c", seed=0)
    with pytest.raises(SliceError, match="Cannot cut at 'layer'"):
        learn_concept(model, x, x, slice="layer", name="c", seed=0)
    stripes = planted(model, direction)
    with pytest.raises(InputError, match="no class 'cow'"):
        TCAV(concepts=[stripes], quantity=ClassScore("cow"))(model, x, seed=0)
    with pytest.raises(InputError, match="learned from another model"):
        TCAV(concepts=[stripes], quantity=ClassScore("cat"))(linear(-direction), x, seed=0)
    with pytest.raises(InputError, match="at least one concept"):
        TCAV(concepts=[], quantity=ClassScore("cat"))(model, x, seed=0)
    with pytest.raises(InputError, match="'permutations'"):
        TCAV(concepts=[stripes], quantity=ClassScore("cat"), permutations=5)(model, x, seed=0)
    with pytest.raises(InputError, match="'level'"):
        TCAV(concepts=[stripes], quantity=ClassScore("cat"), level=1.0)(model, x, seed=0)
