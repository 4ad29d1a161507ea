"""Channels, maps, units and exemplars are right where channels are not the first axis: right by construction."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from explain.oriented_networks import ChannelsLast, Patches, Tokens, Windows
from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.explain import Channel, ChannelInfluence, ClassScore, FindExemplars, GradCAM, Influence
from modelkeep.explain.orientation import oriented_slice, require_channels, say_axes
from modelkeep.explain.places import last_feature_map

NETWORKS = [Tokens, ChannelsLast, Windows]


def model_of(network: type[Patches]) -> Model:
    return Model(network(), input_shape=(1, 12, 16), classes=("bright", "dark"))


def planted(row: int, column: int) -> torch.Tensor:
    """Dark but for one patch of 4 × 4 pixels; 3 × 4 patches in all."""
    x = torch.zeros(1, 1, 12, 16)
    x[..., 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 1.0
    return x


@pytest.mark.parametrize("network", NETWORKS)
def test_grad_cam_points_at_the_patch_that_is_there(network: type[Patches]) -> None:
    model = model_of(network)
    for row, column in ((0, 0), (1, 3), (2, 1)):
        found = GradCAM(slice="mix", quantity=ClassScore("bright"))(model, planted(row, column), seed=0)
        assert found.heat().shape == (1, 3, 4)
        assert divmod(int(found.heat().argmax()), 4) == (row, column)
        assert found.strongest(1)[0][0] == "channel 0"
        assert found.heat_over_inputs().shape == (1, 12, 16)


@pytest.mark.parametrize("network", NETWORKS)
def test_channels_are_channels_in_units_influences_and_exemplars(network: type[Patches]) -> None:
    model = model_of(network)
    x = torch.cat([planted(0, 0), 0.5 * planted(1, 3), 0.25 * planted(2, 2)])
    found = ChannelInfluence(slice="mix", quantity=ClassScore("bright"))(model, x, seed=0)
    assert found.influence.shape == (3, 8)
    assert int(found.influence.abs().mean(dim=0).argmax()) == 0
    seen = Influence(quantity=Channel("mix", 0))(model, x, seed=0)
    torch.testing.assert_close(seen.values, torch.tensor([1.0, 0.5, 0.25]) / (13 if network is Tokens else 12))
    data = Data(x, torch.tensor([0, 0, 0]), model.classes)
    best = FindExemplars(slice="mix", units=[0], count=2)(model, data, seed=0)
    assert best.index.tolist() == [[0, 1]]
    first = int(network is Tokens)
    at = [[[first, 0], [first + 7, 0]]] if network is Tokens else [[[0, 0], [1, 3]]]
    assert best.position is not None
    assert best.position.tolist() == at
    assert best.box is not None
    assert best.box[0, 0].tolist() == [0, 0, 4, 4]
    assert last_feature_map(model) == "mix"


@pytest.mark.parametrize("network", NETWORKS)
def test_a_turned_slice_is_as_exact_as_any(network: type[Patches]) -> None:
    torch.manual_seed(0)
    model = model_of(network)
    for part in model.module.parameters():
        nn.init.normal_(part)
    x = torch.rand(3, 1, 12, 16)
    cutting = oriented_slice(model, "mix")
    assert torch.equal(cutting.g(cutting.h(x)), model.forward(x))
    plain = model.slice("mix")
    z = plain.h(x).value.detach().requires_grad_()
    (wanted,) = torch.autograd.grad(plain.g(plain.h(x).replace(z))[:, 0].sum(), z)
    found = Influence(slice="mix", quantity=ClassScore("bright"))(model, x, seed=0).influence
    torch.testing.assert_close(cutting.orientation.turn(wanted), found)


def test_where_it_is_not_known_it_is_asked_and_an_answer_is_taken() -> None:
    class Own(Windows):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = self.patch(x)
            # A gather by numbers: where its values come from cannot be said.
            z = self.window(z.flatten(1)[:, torch.arange(96).view(8, 3, 4)].permute(0, 2, 3, 1))
            result: torch.Tensor = self.head(z.square().mean(dim=(1, 2)))
            return result

    model = model_of(Own)
    with pytest.raises(InputError, match=r"not known which axis of 'window' has the channels.*Say it: say_axes"):
        GradCAM(slice="window")(model, planted(1, 1), seed=0)
    assert last_feature_map(model) == "patch"  # the last of which the channels are known
    with pytest.raises(InputError, match="Say it: say_axes"):
        FindExemplars(slice="window", units=[0])(model, Data(planted(1, 1), torch.tensor([0]), model.classes), seed=0)
    unknown = Influence(slice="window")(model, planted(1, 1), seed=0)
    assert unknown.unit_name(5) == "unit 5"
    assert not unknown.channels_known
    say_axes(model, "window", ("row", "column", "channel"))
    assert require_channels(model, "window").known
    found = GradCAM(slice="window")(model, planted(1, 1), seed=0)
    assert divmod(int(found.heat().argmax()), 4) == (1, 1)
    with pytest.raises(InputError, match="'channel' and others of channel, row, column, token"):
        say_axes(model, "window", ("row", "colour"))
    say_axes(model, "window", ("token", "channel"))
    with pytest.raises(InputError, match="has 3 axes beside the batch"):
        Influence(slice="window")(model, planted(1, 1), seed=0)
