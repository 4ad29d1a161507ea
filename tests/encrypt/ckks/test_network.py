"""Networks are read as affine maps and squares; what cannot be is refused by the layer's name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import EncryptError
from modelkeep.encrypt.ckks.network import read_network
from modelkeep.encrypt.polynomial import Polynomial


class Functions(nn.Module):
    """The same in calls of functions: a skip within an affine stretch, a product with itself, a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.last = nn.Linear(2 * 4 * 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.conv(x) + 2 * x
        z = torch.nn.functional.avg_pool2d(z * z, 2)
        return self.last(z.view(z.size(0), -1))  # type: ignore[no-any-return]


class Skip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.first(x)
        return self.last(z.square() + z)  # type: ignore[no-any-return]


def cnn() -> nn.Sequential:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2, padding=1),
        nn.BatchNorm2d(3),
        Polynomial(0.3, 0.5, -0.1),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 5),
        Polynomial(),
        nn.Linear(5, 4),
    )
    norm = module[1]
    assert isinstance(norm, nn.BatchNorm2d)
    norm.running_mean, norm.running_var = torch.randn(3), torch.rand(3) + 0.5
    return module.eval()


def model_of(module: nn.Module, shape: tuple[int, ...], classes: int) -> Model:
    return Model(module.eval(), input_shape=shape, classes=classes)


@pytest.mark.parametrize(("module", "classes"), [(cnn(), 4), (Functions(), 3)])
def test_the_maps_give_the_models_logits(module: nn.Module, classes: int) -> None:
    model = Model(
        module.eval(),
        input_shape=(1, 8, 8),
        classes=classes,
        preprocessing=Preprocessing(mean=(0.4,), std=(0.3,)),
        bounds=(0.0, 1.0),
    )
    x = torch.rand(5, 1, 8, 8)
    got = read_network(model).values(x.reshape(5, -1).double().numpy())[-1]
    np.testing.assert_allclose(got, model.logits(x), atol=1e-4)


def test_layers_between_squares_are_one_map_and_its_pattern_is_the_structure() -> None:
    module = cnn()
    with torch.no_grad():
        module[0].weight[0].zero_()  # type: ignore[index]  # pruned weights must not show in the pattern
    first, second, third = read_network(model_of(module, (1, 8, 8), 4)).maps
    assert first.name == "0, 1"
    assert (second.weight.shape, third.weight.shape) == ((5, 48), (4, 5))
    assert first.pattern.sum(axis=1).max() == 9  # a window of 3 × 3
    assert first.pattern[0].any()
    assert not first.weight[0].any()


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        (
            [nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 2)],
            "Layer '1' is a MaxPool2d.*average pool",
        ),
        ([nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 2)], "Layer '2' is a ReLU.*--replace"),
        ([nn.Flatten(), nn.Linear(64, 8), nn.LayerNorm(8), nn.Linear(8, 2)], "Layer '2' is a LayerNorm.*batch norm"),
        ([nn.Flatten(), nn.Softmax(dim=1), nn.Linear(64, 2)], "Layer '1' is a Softmax.*the client can"),
        ([nn.Flatten(), nn.Linear(64, 2), nn.Hardshrink()], "Layer '2' is a Hardshrink, which is neither affine"),
    ],
)
def test_what_is_refused_by_name(layers: list[nn.Module], says: str) -> None:
    with pytest.raises(EncryptError, match=says):
        read_network(model_of(nn.Sequential(*layers), (1, 8, 8), 2))


def test_a_skip_around_a_square_is_refused() -> None:
    with pytest.raises(EncryptError, match="Layer 'add' uses 'first' from before the activation"):
        read_network(model_of(Skip(), (4,), 2))
