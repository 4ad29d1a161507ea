"""What is missing: the counts of the paper's tables, exact shares, and parts of networks of all kinds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from modelkeep.completion.part import Part, parts_of
from modelkeep.core.errors import InputError
from modelkeep.training import Recipe
from modelkeep.zoo.architectures import alexnet, resnet50, small_resnet

# Table 3 prints 614,654 for the standard Conv 2 and 1,991,000 for the large Conv 5, which no network can have.
ALEXNET = {
    "standard": (34_944, 614_656, 885_120, 1_327_488, 884_992, 1_052_672, 16_781_312, 4_096_000),
    "large": (52_416, 1_382_784, 1_991_232, 2_986_560, 1_991_040, 2_365_440, 37_754_880, 6_144_000),
    "small": (17_472, 153_728, 221_376, 331_968, 221_312, 264_192, 4_196_352, 2_048_000),
}
RESNET50 = {
    "Conv1": (Part("Conv1", ("conv1",)), 9_536),
    "S1 B1": (Part("S1 B1", ("section1.block1",)), 75_008),
    "S2 B1": (Part("S2 B1", ("section2.block1",)), 379_392),
    "S3 B1": (Part("S3 B1", ("section3.block1",)), 1_512_448),
    "S4 B1": (Part("S4 B1", ("section4.block1",)), 6_039_552),
    "S4 B1 -W": (Part("S4 B1 -W", ("section4.block1",), without=("section4.block1.skip",)), 3_938_304),
    "Logits": (Part("Logits", ("logits",)), 2_048_000),
}


class Attending(nn.Module):
    """A network of the kinds that are no plain layers: a parameter of its own, attention, a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.recurrent = nn.LSTM(8, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.recurrent(self.encoder(x + self.token))[0][:, -1])
        return found


@pytest.mark.parametrize("size", ["standard", "large", "small"])
def test_parts_of_alexnet_are_the_columns_of_table_3(size: str) -> None:
    with torch.device("meta"):
        network = alexnet((3, 224, 224), 1000, size)  # type: ignore[arg-type]
    parts = parts_of(network)
    names = ("conv1", "conv2", "conv3", "conv4", "conv5", "linear1", "linear2", "logits")
    assert tuple(part.name for part in parts) == names
    assert tuple(part.count(network) for part in parts) == ALEXNET[size]


def test_parts_of_resnet50_have_the_counts_of_table_4() -> None:
    with torch.device("meta"):
        network = resnet50((3, 224, 224), 1000)
    assert {name: part.count(network) for name, (part, _) in RESNET50.items()} == {
        name: count for name, (_, count) in RESNET50.items()
    }
    assert {part.name for part in parts_of(network)} >= {"conv1", "section4.block3", "logits"}


@pytest.mark.parametrize(
    "network",
    [
        small_resnet((1, 8, 8), 3, blocks=2, width=4),
        Attending(),
        nn.Linear(3, 2),
        nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 2)),
    ],
    ids=["resnet", "attending", "one layer", "norm first"],
)
def test_parts_of_a_network_hold_each_parameter_once(network: nn.Module) -> None:
    found = [name for part in parts_of(network) for name in part.parameters(network)]
    assert sorted(found) == sorted(name for name, _ in network.named_parameters())


def test_a_default_part_is_a_layer_with_its_norm_or_a_block() -> None:
    resnet = [part.name for part in parts_of(small_resnet((1, 8, 8), 3, blocks=2, width=4))]
    assert resnet == ["conv1", *(f"section{i}.block{j}" for i in (1, 2, 3) for j in (1, 2)), "logits"]
    attending = [part.name for part in parts_of(Attending())]
    assert attending == ["token", "encoder.layers.0", "encoder.layers.1", "recurrent", "head"]
    flat = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2))
    assert [part.layers for part in parts_of(flat)] == [("0", "1"), ("4",)]


def test_what_is_left_out_is_not_missing() -> None:
    network = small_resnet((1, 8, 8), 3, blocks=1, width=4)
    part = Part("S3 B1 -W", ("section3.block1",), without=("section3.block1.skip",))
    assert all(name.startswith("section3.block1.residual.") for name in part.parameters(network))
    whole, skip = Part("S3 B1", ("section3.block1",)), Part("skip", ("section3.block1.skip",))
    assert part.count(network) == whole.count(network) - skip.count(network)
    # The names do not run into each other: block1 is not block10.
    assert "section3.block10.skip" not in whole


@given(share=st.floats(0.01, 1.0), seed=st.integers(0, 99))
def test_a_share_is_exact_in_each_parameter_and_chosen_by_the_seed(share: float, seed: int) -> None:
    network = nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3))
    part = Part("some", ("",), share=share, seed=seed)
    missing = part.missing_elements(network)
    assert {name: int(chosen.sum()) for name, chosen in missing.items()} == {
        name: round(share * parameter.numel()) for name, parameter in network.named_parameters()
    }
    assert sum(int(chosen.sum()) for chosen in missing.values()) == part.count(network)
    again = Part("another name", ("0",), share=share, seed=seed).missing_elements(network)
    assert all(torch.equal(missing[name], again[name]) for name in again)


def test_another_seed_takes_other_elements_and_each_as_often() -> None:
    layer = nn.Linear(20, 10)
    drawn = [Part("half", ("",), share=0.5, seed=seed).missing_elements(layer)["weight"].float() for seed in range(400)]
    # The mean of 400 coins per element: five standard deviations are 0.125.
    assert (torch.stack(drawn).mean(0) - 0.5).abs().max() < 0.125


@pytest.mark.parametrize("part", [RESNET50["S4 B1 -W"][0], Part("some", ("", "a.b"), ("c",), 0.25, 3)])
def test_a_part_goes_through_json(part: Part) -> None:
    assert Part.from_json(part.to_json()) == part


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (Part("p", ("1", "9")), "no layer '9'"),
        (Part("p", ("0",), without=("nothing",)), "no layer 'nothing'"),
        (Part("p", ("0",), without=("2",)), "in none of"),
        (Part("p", ("1",)), "no parameters"),
        (Part("p", ("0",), without=("0",)), "no parameters"),
    ],
    ids=["unknown layer", "unknown exception", "exception elsewhere", "no parameters", "all left out"],
)
def test_a_part_that_the_network_does_not_have_is_an_error(part: Part, says: str) -> None:
    network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    with pytest.raises(InputError, match=says):
        part.parameters(network)


def test_impossible_parts_are_errors() -> None:
    for share in (0.0, 1.5, float("nan")):
        with pytest.raises(InputError, match="share"):
            Part("p", ("0",), share=share)
    with pytest.raises(InputError, match="layers"):
        Part("p", ())
    with pytest.raises(InputError, match="not a part"):
        Part.from_json({"name": "p"})
    with pytest.raises(InputError, match="no parameters"):
        parts_of(nn.Sequential(nn.ReLU()))


@pytest.mark.parametrize(
    "part",
    [
        Part("block", ("section2.block1",)),
        Part("no skip", ("section2.block1",), without=("section2.block1.skip",)),
        Part("two", ("conv1", "section3")),
        Part("all but", ("",), without=("section1", "logits.bias")),
        Part("a weight", ("logits.weight",)),
    ],
    ids=lambda part: part.name,
)
def test_a_recipe_with_the_names_of_a_part_trains_just_its_parameters_and_its_norms(part: Part) -> None:
    network = small_resnet((1, 8, 8), 3, blocks=1, width=4)
    recipe = Recipe(steps=1, trainable=part.trainable(network))
    trained = {name for name, _ in network.named_parameters() if recipe.trains(name)}
    assert trained == set(part.parameters(network))
    norms = [name for name, layer in network.named_modules() if isinstance(layer, nn.BatchNorm2d)]
    assert [name for name in norms if recipe.trains(name)] == [name for name in norms if name in part]
