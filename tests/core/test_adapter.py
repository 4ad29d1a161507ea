"""An adapted model is attacked, explained, cut, trained and saved like any other, under the owner's names."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from core.output_networks import MANY, ONE, Net, network
from modelkeep import Data, Labels, Model
from modelkeep.attack import PGD, Square
from modelkeep.core.adapter import Adapter, owner_of
from modelkeep.core.errors import ModelError
from modelkeep.core.nest import Leaf, Nest
from modelkeep.explain import Contrast, Influence
from modelkeep.training import Recipe, cross_entropy, fit

KINDS = [*MANY, *ONE]


def model_and_bare(kind: str) -> tuple[Model, Model, Data]:
    """The adapted model, the same network without its head, and data."""
    module = network(kind)
    model = Model(module, input_shape=(4,), classes=3 if kind in MANY else 2)
    pad = nn.ConstantPad1d((0, 0), 0.0) if kind in MANY else nn.ConstantPad1d((1, 0), 0.0)  # [0, z]
    bare = Model(nn.Sequential(module.first, nn.Tanh(), module.last, pad), input_shape=(4,), classes=model.classes)
    x = torch.rand(20, 4, generator=torch.Generator().manual_seed(2))
    return model, bare, Data(x, bare.predict(x), model.classes)


@pytest.mark.parametrize("kind", KINDS)
def test_attacks_are_those_of_the_bare_network(kind: str) -> None:
    model, bare, data = model_and_bare(kind)
    for attack in (PGD(radius=0.3, steps=5), Square(radius=0.3, queries=20)):
        found, wanted = attack(model, data, seed=0), attack(bare, data, seed=0)
        torch.testing.assert_close(found.adversarial, wanted.adversarial, atol=1e-4, rtol=0)
        assert found.robust_accuracy.value == wanted.robust_accuracy.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["input", "first"])
def test_influence_is_that_of_the_bare_network(kind: str, place: str) -> None:
    model, bare, data = model_and_bare(kind)
    both = ((model, place), (bare, "input" if place == "input" else "0"))
    found, wanted = (Influence(slice=name)(m, data) for m, name in both)
    if kind == "by hand":  # the logits up to a constant of each example, which has influence too
        found, wanted = (Influence(slice=name, quantity=Contrast("0", "1"))(m, data) for m, name in both)
    torch.testing.assert_close(found.influence, wanted.influence)


@pytest.mark.parametrize("kind", KINDS)
def test_every_slice_is_exact(kind: str) -> None:
    model, _, data = model_and_bare(kind)
    places = model.slices()
    assert {"input", "first", "last"} <= set(places)
    for place in ("input", "first"):
        cut = model.slice(place)
        assert torch.equal(cut.g(cut.h(data.x)), model.forward(data.x))


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_has_the_owners_names(kind: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    model, _, data = model_and_bare(kind)
    path = model.save(tmp_path / "model.safetensors")
    assert set(load_file(path)) == {"first.weight", "first.bias", "last.weight", "last.bias"}
    again = Model.load("core.output_networks:network", weights=path, arguments={"kind": kind})
    assert torch.equal(again.logits(data.x), model.logits(data.x))
    assert type(again.module) is type(model.module)


def test_training_is_that_of_the_bare_network() -> None:
    """The loss of a softmax's logits, not of its probabilities taken for logits."""
    model, bare, data = model_and_bare("nn.Softmax")
    alone = Model.from_card(copy.deepcopy(bare.module), bare.card)
    for each in (model, alone):
        fit(each, data, cross_entropy, Recipe(epochs=3, batch_size=10), seed=0)
    assert isinstance(model.module, Adapter)
    assert not owner_of(model.module).training
    assert torch.equal(model.module.get_parameter("first.weight"), alone.module.get_parameter("0.weight"))


def test_a_head_of_a_sequence_is_traced() -> None:
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3), nn.Softmax(dim=1))
    model = Model(module, input_shape=(4,), classes=3)
    cut = model.slice("1")
    assert cut.traced
    x = torch.rand(5, 4)
    assert torch.equal(cut.g(cut.h(x)), module[:3](x))


def test_hooks_of_the_owner_run() -> None:
    module = Net(lambda z: z.softmax(1))
    seen: list[int] = []
    module.register_forward_hook(lambda *_: seen.append(1))
    model = Model(module, input_shape=(4,), classes=3)
    model.predict(torch.rand(2, 4))
    assert len(seen) == 2


class LSTM(nn.Module):
    """An LSTM over token ids."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 6)
        self.lstm = nn.LSTM(6, 5, batch_first=True)
        self.head = nn.Linear(5, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.lstm(self.embedding(ids))[0][:, -1])
        return logits


def test_influence_at_the_embedding_of_an_lstm_is_autograds() -> None:
    torch.manual_seed(0)
    module = LSTM()
    model = Model(module, inputs=Nest((Leaf("ids", (7,), "token", 30),)), classes=("no", "yes"))
    ids = torch.randint(30, (6, 7))
    data = Data(ids.float(), torch.tensor([0, 1] * 3), model.classes)
    assert {"embedding", "lstm", "head"} <= set(model.slices())
    found = Influence(slice="embedding")(model, data, seed=0)
    z = module.embedding(ids).detach().requires_grad_()
    logits = module.head(module.lstm(z)[0][:, -1])
    wanted = torch.stack([torch.autograd.grad(logits[:, c].sum(), z, retain_graph=True)[0] for c in range(2)])
    chosen = wanted[model.predict(data.x), torch.arange(6)]
    torch.testing.assert_close(found.influence, chosen)


def test_the_label_view_asks_by_name() -> None:
    model = Model(LSTM(), inputs=Nest((Leaf("ids", (7,), "token", 30),)), classes=2)
    ids = torch.randint(30, (3, 7))
    assert torch.equal(Labels(model).labels(ids.float()), model.predict({"ids": ids}))
    assert functional.one_hot(model.predict({"ids": ids}), 2).shape == (3, 2)


def test_a_part_may_be_called_as_an_attribute() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inputs, self.owner, self.output = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(self.output(self.owner(self.inputs(x))), dim=1)

    model = Model(Named(), input_shape=(4,), classes=3)
    x = torch.rand(5, 4)
    for name in ("inputs", "owner", "output"):
        cut = model.slice(name)
        assert torch.equal(cut.g(cut.h(x)), model.forward(x))


class Mistaken(nn.Module):
    """It looks for a key that is not there."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        settings: dict[str, float] = {}
        return x * settings["scale"]


class Impatient(nn.Module):
    """It takes two arguments, and nobody said so."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x * mask


@pytest.mark.parametrize(("module", "said"), [(Mistaken(), "KeyError: 'scale'"), (Impatient(), "TypeError: .*mask")])
def test_a_mistake_in_the_owners_code_is_shown_with_its_line(module: nn.Module, said: str) -> None:
    with pytest.raises(ModelError, match=rf"in its own code: {said}.* \(.*line \d+\)") as shown:
        Model(module, input_shape=(3,), classes=3)
    assert isinstance(shown.value.__cause__, KeyError | TypeError)  # what --debug shows
