"""What scripts are told is plain JSON, and the drawer's lines name the model as the user did."""

from __future__ import annotations

import json
import math

import pytest

from modelkeep import Data, Model
from modelkeep.audit.sources import Sources
from modelkeep.core.results import Estimate
from modelkeep.explain import ClassScore, Saliency
from modelkeep.web.told import tell, tell_influence, tell_result
from modelkeep.zoo import datasets, pretrained


def test_everything_is_json() -> None:
    told = tell({"share": Estimate(0.5, 0.0, math.inf, 3), "rows": [(1, math.nan), (2, -math.inf)]})
    assert json.loads(json.dumps(told, allow_nan=False))["rows"] == [[1, "NaN"], [2, "-Infinity"]]
    assert told["share"]["high"] == "Infinity"


def test_the_drawer_repeats_the_method_on_the_same_example(trained_cnn: Model, digits: tuple[Data, Data]) -> None:
    found = Saliency(slice="conv1")(trained_cnn, digits[1].take([3]), seed=4)
    told = tell_result(found, Sources("my net.onnx", "test.csv"), n=1, data="data.take([3])")
    assert told["command"] == "modelkeep explain 'my net.onnx' --data test.csv --method saliency --slice conv1 --seed 4"
    assert told["python"] == "Saliency(slice='conv1')(model, data.take([3]), seed=4)"
    assert (told["seed"], told["model_hash"]) == (4, trained_cnn.fingerprint())


def test_features_of_a_table_are_told_by_their_spread() -> None:
    model, data = pretrained.load("clinic"), datasets.load("breast-cancer", "test")
    found = Saliency(quantity=ClassScore("benign"))(model, data.take([0]))
    spread = data.x.std(dim=0)
    name, value, here = tell_influence(found, spread)["features"][0]
    per_feature = found.influence[0] * spread
    strongest = int(per_feature.abs().argmax())
    assert data.features is not None
    assert name == data.features[strongest]
    assert value == pytest.approx(float(per_feature[strongest]))
    assert here == float(data.x[0, strongest])


def test_a_slice_without_a_map_has_none(trained_cnn: Model, digits: tuple[Data, Data]) -> None:
    found = Saliency(slice="linear1_relu")(trained_cnn, digits[1].take([0]))
    told = tell_influence(found, None)
    assert "map" not in told
    assert len(told["features"]) == 24
