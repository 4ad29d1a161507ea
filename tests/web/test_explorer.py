"""The explorer's numbers are those of the rooms' own methods; what cannot be explained is refused in a sentence."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.core.errors import AccessError, InputError
from modelkeep.core.slices import Place
from modelkeep.explain import (
    AgainstAll,
    Channel,
    ClassScore,
    Contrast,
    DataSet,
    FindExemplars,
    Influence,
    IntegratedGradients,
    PredictedScore,
    Saliency,
)
from modelkeep.report import explain_examples
from modelkeep.web.exhibits import Lookout
from modelkeep.web.explorer import CLASS, OTHERS, Explorer
from modelkeep.zoo import datasets, pretrained


@pytest.fixture(scope="module")
def explorer(trained_cnn: Model, digits: tuple[Data, Data]) -> Explorer:
    return Explorer(trained_cnn, digits[1])


def test_units_are_those_of_the_page_of_modelkeep_explain(explorer: Explorer) -> None:
    page = explain_examples(
        explorer.model,
        explorer.data,
        [5],
        places=[Place("conv2_relu")],
        quantities=[Contrast("3", "8")],
        explainer=IntegratedGradients(),
    )
    found = explorer.explain(5, "conv2_relu", "3", "8", "line")
    assert [unit.name for unit in found.units] == [unit.name for unit in page.slices[0].units]
    for ours, theirs in zip(found.units, page.slices[0].units, strict=True):
        assert ours.influence == pytest.approx(theirs.influence[0].value, rel=1e-5)


def test_the_picture_is_the_influence_at_the_input(explorer: Explorer) -> None:
    found = explorer.explain(5, "linear1_relu", "", "", "point")
    expected = Saliency()(explorer.model, explorer.data.take([5]))
    assert found.seen is not None
    torch.testing.assert_close(found.seen.influence, expected.influence, rtol=0, atol=0)
    assert explorer.explain(5, "input", "", "", "point").units == (), "a pixel is no unit to name"


def test_over_all_examples_of_a_class(explorer: Explorer) -> None:
    label = explorer.data.classes[int(explorer.data.y[5])]
    found = explorer.explain(5, "conv2_relu", label, "", CLASS)
    method = Influence(slice="conv2_relu", quantity=ClassScore(label), distribution=DataSet(of=label))
    expected = method(explorer.model, explorer.lookout.data)
    torch.testing.assert_close(found.at_slice.influence, expected.influence, rtol=0, atol=0)


def test_what_makes_a_unit_active(explorer: Explorer) -> None:
    found = explorer.explain_unit(5, "conv2_relu", 3, "point")
    expected = Saliency(quantity=Channel("conv2_relu", 3))(explorer.model, explorer.data.take([5]))
    torch.testing.assert_close(found.influence, expected.influence, rtol=0, atol=0)
    assert explorer.explain_unit(5, "linear1_relu", 3, "point").quantity == "unit (3,) of 'linear1_relu'"


def test_exemplars_are_those_of_the_room_and_keep_their_numbers(explorer: Explorer) -> None:
    found = explorer.exemplars("conv2_relu", (0, 3))
    expected = FindExemplars(slice="conv2_relu", units=(0, 3))(explorer.model, explorer.data)
    assert [[each.index for each in row] for row in found] == expected.index.tolist()
    assert [[each.activation for each in row] for row in found] == expected.activation.tolist()


def test_quantities_and_the_command_that_explains_them(explorer: Explorer) -> None:
    answer = Lookout(explorer.model, explorer.data.take([7])).lines()[0].predicted
    other = next(name for name in explorer.model.classes if name != answer)
    assert explorer.quantity(7, "", "") == PredictedScore()
    assert explorer.quantity(7, "3", "") == ClassScore("3")
    assert explorer.quantity(7, "", OTHERS) == AgainstAll()
    assert explorer.quantity(7, "", other) == Contrast(answer, other)
    assert explorer.command(7, "3", "8", "conv1", "gaussian", 2) == (
        "modelkeep explain MODEL --data DATA --index 7 --why 3 --rather-than 8 "
        "--slice conv1 --method smooth-grad --seed 2"
    )
    assert explorer.command(7, "", "", "conv1", CLASS, 0) == ""


def test_features_of_a_table_are_compared_by_their_spread() -> None:
    data = datasets.load("breast-cancer", "test")
    explorer = Explorer(pretrained.load("clinic"), data)
    found = explorer.explain(0, "input", "malignant", "", "point")
    slope = Saliency(quantity=ClassScore("malignant"))(explorer.model, data.take([0])).influence[0]
    by_name = dict(zip(data.features or (), (slope * data.x.std(dim=0)).tolist(), strict=True))
    for unit in found.units:
        assert unit.influence == pytest.approx(by_name[unit.name], rel=1e-5)


def test_refusals_say_what_to_do(explorer: Explorer, digits: tuple[Data, Data]) -> None:
    with pytest.raises(InputError, match="Got 999"):
        explorer.explain(999, "input", "", "", "point")
    with pytest.raises(InputError, match="no place 'nowhere'"):
        explorer.explain(0, "nowhere", "", "", "point")
    with pytest.raises(InputError, match="one of line, point"):
        explorer.explain(0, "input", "", "", "sideways")
    with pytest.raises(InputError, match="'unit' parameter"):
        explorer.explain_unit(0, "conv2_relu", 10_000, "point")
    with pytest.raises(InputError, match="inside the network"):
        explorer.exemplars("input", (0,))
    black_box = Model.answering(lambda x: x.reshape(len(x), -1)[:, :10], input_shape=(1, 8, 8), classes=10)
    with pytest.raises(AccessError, match="weights"):
        Explorer(black_box, Data(digits[1].x, digits[1].y, black_box.classes))
