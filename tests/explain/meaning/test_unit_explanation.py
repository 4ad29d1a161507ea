"""A channel that was built to see one pattern is ranked first, found where the pattern is, and drawn on the sheet."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.core import plots
from modelkeep.core.errors import InputError, SliceError
from modelkeep.explain import Channel, ClassScore, Influence, OfInner
from modelkeep.explain.meaning.concepts import Concept, learn_concept
from modelkeep.explain.meaning.unit_explanation import ExplainUnits
from modelkeep.explain.meaning.unit_sheet import UnitSheet

CROSS = torch.tensor([[1.0, -1, 1], [-1, 1, -1], [1, -1, 1]])
CLASSES = ("cross", "none")


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def model() -> Model:
    """Channel 2 of four looks for a diagonal cross, and the class 'cross' depends on it most."""
    convolution, output = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        convolution.weight.copy_(0.2 * noise(4, 1, 3, 3, seed=1))
        convolution.weight[2, 0] = CROSS
        assert convolution.bias is not None
        convolution.bias.copy_(torch.tensor([0.1, 0.1, -2.0, 0.1]))
        output.weight.copy_(torch.tensor([[0.1, -0.1, 5.0, 0.2], [0.0, 0.0, 0.0, 0.0]]))
    layers = OrderedDict[str, nn.Module](
        features=nn.Sequential(convolution, nn.ReLU()), pool=nn.AdaptiveMaxPool2d(1), flat=nn.Flatten(), output=output
    )
    return Model(nn.Sequential(layers), input_shape=(1, 12, 12), classes=CLASSES)


def crosses(n: int = 40, seed: int = 0) -> tuple[Data, list[tuple[int, int]]]:
    """Faint noise; every second image has a cross, and where."""
    generator = torch.Generator().manual_seed(seed)
    x = 0.1 * torch.rand(n, 1, 12, 12, generator=generator)
    where = [(int(i), int(j)) for i, j in torch.randint(1, 11, (n, 2), generator=generator)]
    for k in range(0, n, 2):
        i, j = where[k]
        x[k, 0, i - 1 : i + 2, j - 1 : j + 2] = CROSS.clamp(min=0)
    return Data(x, torch.arange(n) % 2, CLASSES, bounds=(0, 1)), where


def concepts(model: Model) -> list[Concept]:
    """Crosses, and a division of the data that means nothing."""
    data, _ = crosses(80, seed=5)
    with_it, without = data.of_class("cross"), data.of_class("none")
    return [
        learn_concept(model, with_it, without, slice="features", name="a cross", seed=0),
        learn_concept(model, without.x[:20], without.x[20:], slice="features", name="nothing", seed=0),
    ]


@pytest.fixture(scope="module")
def sheet(model: Model) -> UnitSheet:
    data, _ = crosses()
    return ExplainUnits(slice="features", quantity=ClassScore("cross"), units=2, concepts=concepts(model), steps=200)(
        model, data, seed=0
    )


def test_the_planted_channel_comes_first(sheet: UnitSheet) -> None:
    assert sheet.units[0] == 2
    assert sheet.influence[0].value == pytest.approx(5.0)  # the maximum passes its slope to one position
    assert sheet.influence[0].n == 40


def test_its_exemplars_show_the_pattern_and_the_heat_and_the_frame_are_where_it_is(sheet: UnitSheet) -> None:
    _, where = crosses()
    assert sheet.exemplars.labels[0].tolist() == [0] * 4
    assert sheet.heat is not None
    assert sheet.exemplars.box is not None
    for k, index in enumerate(sheet.exemplars.index[0].tolist()):
        i, j = where[index]
        inside = torch.zeros(12, 12, dtype=torch.bool)
        inside[i - 1 : i + 2, j - 1 : j + 2] = True
        heat = sheet.heat[0, k].abs()
        assert heat[inside].sum() > 0.99 * heat.sum()
        assert sheet.exemplars.box[0, k].tolist() == [i - 1, j - 1, i + 2, j + 2]


def test_the_heat_is_the_attribution_of_the_maximum(model: Model, sheet: UnitSheet) -> None:
    """It sums to the activation's change from the mean image, which is what makes it efficient."""
    data, _ = crosses()
    cut = model.slice("features")
    with torch.no_grad():
        before, after = cut.h(data.x.mean(dim=0)[None]).value[0, 2], sheet.exemplars.activation[0]
    assert sheet.heat is not None
    assert sheet.exemplars.position is not None
    for k, (i, j) in enumerate(sheet.exemplars.position[0].tolist()):
        assert float(sheet.heat[0, k].sum()) == pytest.approx(float(after[k] - before[i, j]), rel=0.1)


def test_its_optimised_input_beats_all_examples(model: Model, sheet: UnitSheet) -> None:
    best = sheet.optimised[0]
    assert best.quantity == "channel 2 of 'features'"
    assert best.best_value is not None
    assert best.value > 1.5 * best.best_value
    again = Influence(quantity=Channel("features", 2))(model, best.input[None], seed=0)
    assert float(again.values) == pytest.approx(best.value, rel=1e-5)


def test_it_tells_the_concept_that_is_there_and_claims_nothing_of_the_other(sheet: UnitSheet) -> None:
    rows = dict(sheet.rows())
    assert "a cross 1.00" in rows["channel 2"]
    assert "nothing" not in rows["channel 2"]
    assert rows["nothing"].startswith("not linearly there")
    assert sheet.sensitivity is not None
    assert sheet.sensitivity.concepts[0].verdict == "raises it"


def test_reads_stores_and_draws_itself(sheet: UnitSheet) -> None:
    again = Result.from_json(sheet.to_json())
    assert isinstance(again, UnitSheet)
    assert again.to_json() == sheet.to_json()
    drawn, other = again.draw(), sheet.draw()
    assert plots.png_bytes(drawn).startswith(b"\x89PNG")
    # Not byte by byte: matplotlib's layout of nested grids may differ by a pixel from one drawing to the next.
    texts, others = ([text.get_text() for ax in figure.axes for text in ax.texts] for figure in (drawn, other))
    assert texts == others
    assert {"channel 2", "exemplars", "what adds to it"} <= set(texts)
    pictures, theirs = (
        [np.asarray(i.get_array()) for ax in figure.axes for i in ax.images] for figure in (drawn, other)
    )
    assert len(pictures) == len(theirs) > 0
    assert all(np.array_equal(a, b) for a, b in zip(pictures, theirs, strict=True))


def test_units_that_are_named_are_explained_in_that_order(model: Model) -> None:
    data, _ = crosses()
    every, _ = crosses(60, seed=9)
    found = ExplainUnits(slice="features", units=[3, 0], exemplars_from=every, count=2, steps=3)(model, data, seed=0)
    assert found.units == (3, 0)
    assert found.exemplars.inputs.shape == (2, 2, 1, 12, 12)
    assert found.exemplars.provenance.data == every.fingerprint()
    assert found.provenance.data == data.fingerprint()
    values = model.slice("features").h(every.x).value.detach()[:, [3, 0]].flatten(2).amax(dim=2)
    assert found.exemplars.index.tolist() == values.argsort(dim=0, descending=True)[:2].T.tolist()


def test_a_table_names_the_features_that_move_the_unit() -> None:
    """Unit 1 is 2·age - debt; in standard deviations, debt (four times as wide) moves it twice as much."""
    hidden, output = nn.Linear(3, 3, bias=False), nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        hidden.weight.copy_(torch.tensor([[0.1, 0, 0], [2.0, -1.0, 0], [0, 0, 0.1]]))
        output.weight.copy_(torch.tensor([[1.0, 3.0, 1.0], [0, 0, 0]]))
    model = Model(nn.Sequential(hidden, output), input_shape=(3,), classes=("yes", "no"), bounds=None)
    x = noise(100, 3) * torch.tensor([1.0, 4.0, 1.0])
    data = Data(x, torch.arange(100) % 2, ("yes", "no"), features=("age", "debt", "rent"))
    found = ExplainUnits(slice="0", quantity=ClassScore("yes"), units=1, steps=100)(model, data, seed=0)
    assert found.units == (1,)
    spread = x.std(dim=0, correction=0).tolist()
    assert [(m.name, m.change.value) for m in found.movers[0]] == [
        ("debt", pytest.approx(-spread[1], rel=1e-5)),
        ("age", pytest.approx(2 * spread[0], rel=1e-5)),
        ("rent", 0.0),
    ]
    assert found.standout is not None
    best = int((2 * x[:, 0] - x[:, 1]).argmax())
    torch.testing.assert_close(found.standout[0, 0], (x[best] - x.mean(dim=0)) / x.std(dim=0, correction=0))
    assert found.optimised[0].furthest_features(1)[0][0] == "debt"
    assert found.heat is None
    assert "moved by debt" in dict(found.rows())["unit 1"]
    assert plots.png_bytes(found.draw()).startswith(b"\x89PNG")
    assert Result.from_json(found.to_json()).to_json() == found.to_json()


def test_a_unit_that_is_never_active_is_said_to_be_so() -> None:
    first, second = nn.Linear(16, 2), nn.Linear(2, 2)
    with torch.no_grad():
        first.weight.fill_(-1.0)
        first.bias.fill_(-1.0)
    model = Model(nn.Sequential(nn.Flatten(), first, nn.ReLU(), second), input_shape=(1, 4, 4), classes=2)
    data = Data(noise(8, 1, 4, 4).sigmoid(), torch.zeros(8, dtype=torch.int64), ("0", "1"))
    found = ExplainUnits(slice="2", units=1, steps=2)(model, data, seed=0)
    assert found.optimised[0].flat
    assert plots.png_bytes(found.draw()).startswith(b"\x89PNG")


def test_what_does_not_exist_is_refused(model: Model) -> None:
    data, _ = crosses(6)
    with pytest.raises(InputError, match=r"channels from 0 to 3 of 'features'. Got \[4\]"):
        ExplainUnits(slice="features", units=[4])(model, data, seed=0)
    with pytest.raises(InputError, match="'units'"):
        ExplainUnits(slice="features", units=0)(model, data, seed=0)
    with pytest.raises(SliceError, match=r"Cannot cut at 'feature'.* Did you mean 'features'"):
        ExplainUnits(slice="feature")(model, data, seed=0)
    with pytest.raises(InputError, match="no class 'crossing'"):
        ExplainUnits(slice="features", quantity=ClassScore("crossing"))(model, data, seed=0)
    with pytest.raises(InputError, match="was learned at 'features', but these are units of 'pool'"):
        ExplainUnits(slice="pool", concepts=concepts(model))(model, data, seed=0)
    inner = OfInner("inner", "features.0", lambda z: z.flatten(1).sum(dim=1))
    with pytest.raises(SliceError, match="is computed first"):
        ExplainUnits(slice="features", quantity=inner)(model, data, seed=0)


def test_units_are_ranked_by_what_they_account_for_and_not_by_their_weight() -> None:
    """Unit 0 has the largest weight and never varies; unit 1 does all the work."""
    module = nn.Sequential(nn.Linear(2, 2), nn.Identity(), nn.Linear(2, 2))
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))  # type: ignore[operator]
        module[0].bias.copy_(torch.tensor([1.0, 0.0]))  # type: ignore[operator]
        module[2].weight.copy_(torch.tensor([[9.0, 1.0], [-9.0, -1.0]]))  # type: ignore[operator]
    model = Model(module, input_shape=(2,), classes=2)
    data = Data(torch.rand(20, 2, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2, ("0", "1"))
    sheet = ExplainUnits(slice="1", units=1, quantity=ClassScore("0"), count=1, steps=1)(model, data, seed=0)
    assert sheet.units == (1,)
