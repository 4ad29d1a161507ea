"""The graph of a network names the places that a person tells apart, and what each of them reads."""

from __future__ import annotations

import torch
from torch import nn

from modelkeep import Model
from modelkeep.web.network import NetworkPlace, read_network
from modelkeep.zoo import pretrained
from modelkeep.zoo.architectures import small_resnet


def test_a_shape_is_that_of_the_value_at_the_slice() -> None:
    model = Model(small_resnet((3, 8, 8), 4), input_shape=(3, 8, 8), classes=4)
    places = read_network(model)
    for place in places[::7]:  # to cut anywhere takes long
        assert place.shape == tuple(model.slice(place.name).h(model.probe()).value.shape[1:]), place.name
    positions = [model.slices().index(place.name) for place in places]
    assert positions == sorted(positions)


def test_a_skip_connection_is_read_beside_the_branch() -> None:
    places = {p.name: p for p in read_network(Model(small_resnet((3, 8, 8), 4), input_shape=(3, 8, 8), classes=4))}
    assert places["add"].reads == ("section1.block1.residual.conv2.norm", "section1.block1.skip")
    assert places["section1.block1.relu"].reads == ("add",)
    assert "section1" not in places, "it holds other modules, and its value is that of the last"


def test_the_operations_of_an_activation_count_as_one_place() -> None:
    names = [place.name for place in read_network(pretrained.load("digits-certified"))]
    assert " ".join(names) == "input conv1 conv1_minmax conv2 conv2_minmax flatten linear1 linear1_minmax logits"


class Turning(nn.Module):
    """A network that torch.fx cannot follow: where it goes depends on its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        if hidden.sum() > 1e9:
            hidden = -hidden
        found: torch.Tensor = self.second(hidden)
        return found


def test_a_network_that_cannot_be_traced_is_a_row_of_modules() -> None:
    assert read_network(Model(Turning(), input_shape=(3,), classes=2)) == (
        NetworkPlace("input", "input", (3,), 0, ()),
        NetworkPlace("first", "Linear", (4,), 0, ("input",)),
        NetworkPlace("second", "Linear", (2,), 0, ("first",)),
    )
