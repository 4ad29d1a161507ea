"""Clipping: both ways give the same sum, one example moves it by at most the clip, and mixing is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.errors import ModelError
from modelkeep.privacy.private_training import clipping
from modelkeep.privacy.private_training.clipping import Clipping


def logits_of(layer: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    logits = layer(hidden)
    assert isinstance(logits, torch.Tensor)
    return logits


class Twice(nn.Module):
    """One layer, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return logits_of(self.last, torch.relu(self.inner(torch.relu(self.inner(x)))))


class Tied(Twice):
    """A weight that is also used outside of its layer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return logits_of(self.last, torch.relu(x @ self.inner.weight + self.inner(x)))


class InPlace(Twice):
    """The output of a layer is overwritten by code."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return logits_of(self.last, torch.relu_(self.inner(x)))


class Centred(Twice):
    """Mixes the examples of a batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.inner(x)
        return logits_of(self.last, torch.relu(hidden - hidden.mean(dim=0)))


class Recurrent(nn.Module):
    """A layer without a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.RNNCell(6, 5)
        self.last = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return logits_of(self.last, self.first(x))


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.LayerNorm(8), nn.Linear(8, 3))


def made(module: nn.Module) -> Model:
    model = Model(module, input_shape=(6,), classes=3, bounds=None)
    model.module.train()
    return model


def batch(n: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 6, generator=generator), torch.randint(3, (n,), generator=generator)


def added(
    model: Model, x: torch.Tensor, y: torch.Tensor, clip: float, way: Clipping | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The clipped sum as one vector, and the norms."""
    model.module.zero_grad()
    _, norms = (way or Clipping()).add_up(model, x, y, clip)
    return torch.cat([p.grad.flatten() for p in model.module.parameters() if p.grad is not None]), norms


def by_hand(model: Model, x: torch.Tensor, y: torch.Tensor, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A backward pass for each example."""
    total, norms = torch.zeros(()), []
    for one, label in zip(x, y, strict=True):
        model.module.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(model.forward(one[None]), label[None]))
        own = torch.cat([p.grad.flatten() for p in model.module.parameters() if p.grad is not None])
        norms.append(own.norm())
        total = total + own * min(1.0, clip / float(own.norm()))
    return total, torch.stack(norms)


@pytest.mark.parametrize("kind", [dense, Twice, Tied, InPlace, Recurrent])
def test_the_clipped_sum_equals_a_backward_pass_for_each_example(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = made(kind())
    (x, y), clip = batch(), 0.5
    expected, sizes = by_hand(model, x, y, clip)
    assert (sizes > clip).any(), "nothing would be clipped"
    found, norms = added(model, x, y, clip)
    torch.testing.assert_close(norms, sizes, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_the_structure_is_used_where_it_is_right_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("one by one")

    monkeypatch.setattr(clipping, "_one_by_one", refuse)
    torch.manual_seed(0)
    for kind in (dense, Twice):
        added(made(kind()), *batch(), 0.5)
    for kind in (Tied, InPlace, Recurrent):
        with pytest.raises(AssertionError, match="one by one"):
            added(made(kind()), *batch(), 0.5)


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e30, float("inf"), float("nan")])
@pytest.mark.parametrize("kind", [dense, Recurrent])
def test_no_example_moves_the_sum_by_more_than_the_clip(kind: type[nn.Module], scale: float) -> None:
    torch.manual_seed(0)
    model = made(kind())
    x, y = batch()
    way = Clipping()  # decided on an ordinary batch, as in a training
    others, _ = added(model, x[1:], y[1:], 0.1, way)
    x[0] *= scale
    everything, _ = added(model, x, y, 0.1, way)
    assert torch.isfinite(everything).all()
    assert float((everything - others).norm()) <= 0.1 * (1 + 1e-4)


def test_networks_that_mix_examples_are_refused() -> None:
    with pytest.raises(ModelError, match="mixes the examples"):
        added(made(Centred()), *batch(), 1.0)
    with pytest.raises(ModelError, match="'1' is a batch norm"):
        added(made(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))), *batch(), 1.0)


def test_layers_are_left_as_they_were() -> None:
    module = dense()
    added(made(module), *batch(), 1.0)
    assert module[1].inplace is True  # type: ignore[index]
    assert not any(part._forward_hooks for part in module.modules())


def test_only_the_trained_part_counts() -> None:
    torch.manual_seed(0)
    model = made(dense())
    for parameter in list(model.module.parameters())[:2]:
        parameter.requires_grad_(False)
    expected, sizes = by_hand(model, *batch(), 0.3)
    found, norms = added(model, *batch(), 0.3)
    torch.testing.assert_close(norms, sizes, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
