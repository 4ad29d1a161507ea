"""What holds on a probe of noise is checked again on the first batch of the data."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.errors import ModelError, SliceError
from modelkeep.explain import Influence
from modelkeep.explain.real_batch import check_real_batch


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
        self.settings: dict[str, list[float]] = {"scale": [1.0]}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.first(x).relu() * self.settings["scale"][0])
        return result


class ByNumber(Base):
    """Another path for more than two examples, which a trace does not see."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.first(x)
        many = len(x) > 2 if not isinstance(x, torch.fx.Proxy) else False
        result: torch.Tensor = self.last(z * 2 if many else z)
        return result


class Mixing(Base):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.norm(self.first(x)))
        return result


class Blind(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            gate = self.first(x).sigmoid()
        result: torch.Tensor = self.last(gate * self.first(x))
        return result


def model_of(module: nn.Module) -> Model:
    return Model(module, input_shape=(3,), classes=2)


X = torch.rand(5, 3, generator=torch.Generator().manual_seed(0))


def test_a_path_that_the_probe_did_not_take_is_refused() -> None:
    with pytest.raises(SliceError, match="does not give its own output on these inputs, though it did on a probe"):
        Influence(slice="first")(model_of(ByNumber()), X, seed=0)
    assert Influence(slice="first")(model_of(ByNumber()), X[:2], seed=0).influence.shape == (2, 4)


def test_examples_that_mix_are_refused() -> None:
    with pytest.raises(ModelError, match="otherwise when it is alone"):
        Influence()(model_of(Mixing()), X, seed=0)


def test_a_part_without_gradients_is_refused() -> None:
    with pytest.raises(ModelError, match=r"without gradients \(torch.no_grad around"):
        Influence()(model_of(Blind()), X, seed=0)


def test_settings_in_dicts_and_lists_may_change_later() -> None:
    module = Base()
    model = model_of(module)
    before = Influence(slice="first")(model, X, seed=0).influence
    module.settings["scale"][0] = 3.0
    torch.testing.assert_close(Influence(slice="first")(model, X, seed=0).influence, 3 * before)


def test_a_sound_network_is_checked_once() -> None:
    module, calls = Base(), []
    model = model_of(module)
    cutting = model.slice("first")
    check_real_batch(model, cutting, X)
    handle = module.register_forward_hook(lambda *_: calls.append(1))
    check_real_batch(model, cutting, X)
    handle.remove()
    assert calls == []
