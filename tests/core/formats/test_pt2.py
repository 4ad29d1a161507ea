"""Exported programs come back as they were, with gradients; what could run code in an archive is never run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.errors import ModelError
from modelkeep.zoo import architectures


class Kinds(nn.Module):
    """Buffers, constants, a split, sizes and functions between modules."""

    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(12, 8), nn.LayerNorm(8), nn.Dropout(0.5)
        self.logits = nn.Linear(8, 3)
        self.register_buffer("scale", torch.rand(8), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.norm(self.linear(x.view(x.shape[0], -1))))
        first, second = torch.chunk(x, 2, dim=1)
        x = torch.cat([nn.functional.gelu(first, approximate="tanh"), second * torch.tensor(2.0)], dim=1)
        return torch.as_tensor(self.logits(x * self.scale))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.logits = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.logits(self.block(x).mean(dim=1)))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.second(torch.relu(self.first(x))))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "small_cnn": (lambda: architectures.small_cnn([1, 12, 12], 3), (1, 12, 12)),
    "small_resnet": (lambda: architectures.small_resnet([3, 8, 8], 3, blocks=1, width=4), (3, 8, 8)),
    "kinds": (Kinds, (3, 4)),
    "attention": (Attention, (5, 8)),
    "tied": (Tied, (4,)),
}


def export(module: nn.Module, shape: tuple[int, ...], path: Path, *, dynamic: bool = True, batch: int = 2) -> Path:
    shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
    torch.export.save(torch.export.export(module, (torch.rand(batch, *shape),), dynamic_shapes=shapes), path)
    return path


def lively(module: nn.Module) -> nn.Module:
    """In eval mode, with statistics that a forgotten normalisation would show."""
    generator = torch.Generator().manual_seed(2)
    for name, buffer in module.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
    return module.eval()


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_outputs_and_gradients(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    module = lively(make())
    model = Model.load(export(module, shape, tmp_path / "model.pt2"))
    assert model.input_shape == shape
    assert len(model.classes) == (4 if name == "tied" else 3)
    for n in (1, 7):
        x = torch.rand(n, *shape, requires_grad=True)
        expected, got = module(x), model.forward(x)
        torch.testing.assert_close(got, expected)
        for a, b in zip(
            torch.autograd.grad(got.square().sum(), [x, *model.module.parameters()]),
            torch.autograd.grad(expected.square().sum(), [x, *_in_order(module, model.module)]),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def _in_order(module: nn.Module, like: nn.Module) -> list[nn.Parameter]:
    return [module.get_parameter(name) for name, _ in like.named_parameters()]


def test_weights_keep_their_names_and_ties(tmp_path: Path) -> None:
    module = Tied().eval()
    model = Model.load(export(module, (4,), tmp_path / "model.pt2"))
    names = [name for name, _ in model.module.named_parameters()]
    assert set(names) <= set(module.state_dict())
    assert len(names) == 3  # two biases, and the one weight that both layers use


def test_it_trains_cuts_and_switches_modes(tmp_path: Path) -> None:
    path = export(lively(Kinds()), (3, 4), tmp_path / "model.pt2")
    model = Model.load(path, classes=("a", "b", "c"), bounds=None)
    model.module.train()
    model.module.eval()
    assert model.classes == ("a", "b", "c")
    x = model.probe()
    for place in model.slices():
        cut = model.slice(place)
        assert torch.equal(cut.g(cut.h(x)), model.forward(x)), place
    optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)
    before = model.fingerprint()
    model.forward(x).logsumexp(1).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert model.fingerprint() != before


def test_a_softmax_at_the_end_is_left_out(tmp_path: Path) -> None:
    linear = nn.Linear(4, 3)
    model = Model.load(export(nn.Sequential(linear, nn.Softmax(dim=1)).eval(), (4,), tmp_path / "model.pt2"))
    x = torch.rand(5, 4)
    torch.testing.assert_close(model.logits(x), linear(x).detach())


def test_a_fixed_batch_is_refused_with_the_remedy(tmp_path: Path) -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(self.linear(x.reshape(x.shape[0], 8)))

    path = export(Fixed().eval(), (2, 4), tmp_path / "model.pt2", dynamic=False)
    with pytest.raises(
        ModelError, match=r'export it again: torch\.export\.save.*dynamic_shapes=\(\{0: .*Dim\("batch"\)'
    ):
        Model.load(path)
    # Where the graph does not depend on the size that it was exported with, that size does no harm.
    path = export(nn.Sequential(nn.Flatten(), nn.Linear(8, 3)).eval(), (2, 4), tmp_path / "m.pt2", dynamic=False)
    assert Model.load(path).logits(torch.rand(5, 2, 4)).shape == (5, 3)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(4), nn.Dropout(0.5)])
def test_an_export_in_train_mode_is_refused(layer: nn.Module, tmp_path: Path) -> None:
    path = export(nn.Sequential(nn.Linear(4, 4), layer, nn.Linear(4, 3)).train(), (4,), tmp_path / "model.pt2")
    with pytest.raises(ModelError, match=r"train mode"):
        Model.load(path)


def test_nan_weights_are_refused(tmp_path: Path) -> None:
    linear = nn.Linear(4, 3).eval()
    with torch.no_grad():
        linear.bias[1] = torch.nan
    with pytest.raises(ModelError, match="NaN or infinite weights in bias"):
        Model.load(export(linear, (4,), tmp_path / "model.pt2"))


def test_more_than_one_input_is_refused(tmp_path: Path) -> None:
    class Two(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Two(), (torch.rand(2, 3), torch.rand(2, 3))), path)
    with pytest.raises(ModelError, match=r"one input.*Got 2 inputs"):
        Model.load(path)
