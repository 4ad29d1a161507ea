"""The model answers right, refuses what would give a plausible wrong answer, and is left as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Preprocessing
from modelkeep.core.errors import InputError, ModelError


class Noise(Exception):
    """What a method may raise in the middle."""


def test_logits_probs_and_labels_agree(small_cnn: Model) -> None:
    x = torch.rand(5, 1, 8, 8)
    logits = small_cnn.logits(x)
    assert torch.equal(logits, small_cnn.module(x))
    assert not logits.requires_grad
    torch.testing.assert_close(small_cnn.probs(x), logits.exp() / logits.exp().sum(1, keepdim=True))
    assert torch.equal(small_cnn.predict(x), logits.argmax(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_preprocessing_is_part_of_the_model(dtype: torch.dtype) -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).to(dtype)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    model = Model(module, input_shape=(3, 2, 2), classes=3, preprocessing=Preprocessing(mean, std))
    x = torch.rand(4, 3, 2, 2, dtype=dtype)
    by_hand = torch.stack([(x[:, c] - mean[c]) / std[c] for c in range(3)], dim=1)
    torch.testing.assert_close(model.preprocess(x), by_hand)
    torch.testing.assert_close(model.logits(x), module(by_hand))


def test_forward_has_gradients_in_the_owners_units() -> None:
    module = nn.Linear(2, 2)
    model = Model(module, input_shape=(2,), classes=2, preprocessing=Preprocessing((0.5,), (0.25,)))
    x = torch.rand(1, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(model.forward(x)[0, 0], x)
    torch.testing.assert_close(gradient[0], module.weight[0].detach() / 0.25)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 8, 8), r"shape \(n, 1, 8, 8\)\. Got \(2, 8, 8\)"),
        (torch.zeros(1, 1, 9, 8), "shape"),
        (torch.tensor(1.0), "shape"),
        (torch.zeros(2, 1, 8, 8, dtype=torch.float64), "must be torch.float32.*Got torch.float64"),
        (torch.zeros(2, 1, 8, 8, dtype=torch.int64), "Got torch.int64"),
        (torch.zeros(0, 1, 8, 8), "at least one example"),
        (torch.zeros(2, 1, 8, 8).index_fill(0, torch.tensor([1]), torch.nan), "NaN or infinity in 1 of 2"),
        (torch.full((2, 1, 8, 8), -torch.inf), "NaN or infinity in 2 of 2"),
        ([[0.0]], "torch tensor. Got list"),
    ],
)
def test_wrong_inputs_are_refused(small_cnn: Model, x: torch.Tensor, message: str) -> None:
    for ask in (small_cnn.logits, small_cnn.probs, small_cnn.predict):
        with pytest.raises(InputError, match=message):
            ask(x)


def test_train_mode_is_refused(small_cnn: Model) -> None:
    x = torch.rand(1, 1, 8, 8)
    small_cnn.module.train()
    with pytest.raises(ModelError, match="train mode at"):
        small_cnn.logits(x)
    small_cnn.module.eval()
    small_cnn.module.get_submodule("3").train()
    with pytest.raises(ModelError, match="train mode at 3"):
        small_cnn.logits(x)


def test_a_new_model_is_in_eval_mode() -> None:
    model = Model(nn.Sequential(nn.Linear(4, 3), nn.Dropout()), input_shape=(4,), classes=3)
    assert not any(part.training for part in model.module.modules())


def test_wrong_number_of_classes_is_an_error() -> None:
    model = Model(nn.Linear(4, 3), input_shape=(4,), classes=5)
    with pytest.raises(ModelError, match=r"\(2, 5\).*Got \(2, 3\)"):
        model.logits(torch.rand(2, 4))


def test_nan_weights_are_an_error() -> None:
    model = Model(nn.Linear(4, 3), input_shape=(4,), classes=3)
    with torch.no_grad():
        next(model.module.parameters())[0, 0] = torch.nan
    with pytest.raises(ModelError, match="NaN or infinite logits"):
        model.logits(torch.rand(2, 4))


def test_class_index(small_cnn: Model) -> None:
    assert small_cnn.class_index("two") == 2
    with pytest.raises(InputError, match=r"no class 'nine'.*zero, one, two, three"):
        small_cnn.class_index("nine")


def test_repr_and_dtype(small_cnn: Model) -> None:
    assert repr(small_cnn) == "Model(Sequential, (1, 8, 8) → 4 classes, 1,148 parameters)"
    assert small_cnn.dtype == torch.float32
    assert Model(nn.Linear(2, 2).double(), input_shape=(2,), classes=2).dtype == torch.float64


@pytest.mark.parametrize("bounds", [(-2.0, 3.0), None])
def test_probe_is_seeded_and_within_bounds(bounds: tuple[float, float] | None) -> None:
    model = Model(nn.Linear(50, 2), input_shape=(50,), classes=2, bounds=bounds)
    state = torch.random.get_rng_state()
    probe = model.probe()
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.equal(probe, model.probe())
    low, high = bounds or (-1.0, 1.0)
    assert probe.shape == (2, 50)
    assert low <= probe.min() < low + 0.5
    assert high - 0.5 < probe.max() <= high


@pytest.mark.parametrize("fails", [False, True])
def test_frozen_leaves_everything_as_it_was(small_cnn: Model, fails: bool) -> None:
    module = small_cnn.module
    module.get_submodule("1").train()
    frozen = module.get_parameter("0.weight").requires_grad_(False)
    before = [part.training for part in module.modules()]
    state = torch.random.get_rng_state()
    raised = False
    try:
        with small_cnn.frozen(0):
            assert not any(part.training for part in module.modules())
            assert not any(parameter.requires_grad for parameter in module.parameters())
            torch.rand(3)
            x = torch.rand(1, 1, 8, 8, requires_grad=True)
            small_cnn.forward(x).sum().backward()  # type: ignore[no-untyped-call]
            if fails:
                raise Noise
    except Noise:
        raised = True
    assert raised is fails
    assert [part.training for part in module.modules()] == before
    assert [p.requires_grad for p in module.parameters()] == [p is not frozen for p in module.parameters()]
    assert all(parameter.grad is None for parameter in module.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_fingerprint_changes_with_any_weight(small_cnn: Model) -> None:
    known = {small_cnn.fingerprint()}
    assert small_cnn.fingerprint() in known
    for tensor in small_cnn.module.state_dict().values():
        tensor.view(-1)[-1] += 1e-3
        known.add(small_cnn.fingerprint())
    assert len(known) == 1 + len(small_cnn.module.state_dict())


def test_fingerprint_changes_with_the_card_and_the_structure() -> None:
    linear = nn.Linear(4, 2)
    made = [
        Model(linear, input_shape=(4,), classes=("a", "b")),
        Model(linear, input_shape=(4,), classes=("a", "c")),
        Model(linear, input_shape=(4,), classes=("a", "b"), bounds=None),
        Model(linear, input_shape=(4,), classes=("a", "b"), preprocessing=Preprocessing((0.5,), (1.0,))),
        Model(nn.Sequential(linear), input_shape=(4,), classes=("a", "b")),
        Model(nn.Sequential(linear, nn.ReLU()), input_shape=(4,), classes=("a", "b")),
        Model(nn.Sequential(linear, nn.Tanh()), input_shape=(4,), classes=("a", "b")),
    ]
    assert len({model.fingerprint() for model in made}) == len(made)


def test_fingerprint_sees_the_code_of_a_traced_graph() -> None:
    class Halved(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 2)
            self.factor = factor

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.mul(self.linear(x), self.factor)

    torch.manual_seed(0)
    first, second = Halved(1.0), Halved(2.0)
    second.load_state_dict(first.state_dict())
    prints = {
        Model(torch.fx.symbolic_trace(module), input_shape=(4,), classes=2).fingerprint() for module in (first, second)
    }
    assert len(prints) == 2


def test_fingerprint_takes_every_kind_of_tensor() -> None:
    module = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))
    module.register_buffer("flag", torch.tensor([True, False]))
    module.register_buffer("empty", torch.empty(0))
    module.register_buffer("short", torch.ones(2, dtype=torch.bfloat16))
    module.register_buffer("strided", torch.rand(3, 4).T)
    assert len(Model(module, input_shape=(4,), classes=2).fingerprint()) == 64


def test_exported_program_is_refused_with_the_way_out() -> None:
    exported = torch.export.export(nn.Linear(4, 2).eval(), (torch.rand(2, 4),)).module()
    with pytest.raises(ModelError, match=r"Model\.load\(\"model\.pt2\"\)"):
        Model(exported, input_shape=(4,), classes=2)


def test_load_refuses_misfits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "plain_networks.py").write_text("from torch import nn\ndef linear(): return nn.Linear(4, 3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelError, match=r"inputs of shape \(5,\).*input_shape right"):
        Model.load("plain_networks:linear", input_shape=(5,), classes=3)
    with pytest.raises(ModelError, match="number of classes"):
        Model.load("plain_networks:linear", input_shape=(4,), classes=2)
    assert Model.load("plain_networks:linear", input_shape=(4,), classes=3).classes == ("0", "1", "2")


def test_a_module_that_works_in_place_leaves_the_callers_inputs_alone() -> None:
    module = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2))
    model = Model(module, input_shape=(4,), classes=2, bounds=None)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    kept = x.clone()
    for _ in range(2):
        model.logits(x)
        assert torch.equal(x, kept)
        # An attack needs the gradient to such an input, which is a leaf that torch lets nobody write to.
        torch.autograd.grad(model.forward(x.requires_grad_()).sum(), x)
        x = x.detach()
    with torch.inference_mode():
        model.forward(x)
    assert torch.equal(x, kept)


def test_a_random_module_is_seeded_while_frozen() -> None:
    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :2] + torch.rand(len(x), 2)

    model = Model(Noisy(), input_shape=(4,), classes=2)
    x = torch.rand(3, 4)
    state = torch.get_rng_state()
    answers = []
    for seed in (1, 1, 2):
        with model.frozen(seed):
            answers.append(model.logits(x))
    assert torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])
    assert torch.equal(torch.get_rng_state(), state)


def test_what_a_file_does_not_say_is_taken_from_the_data(tmp_path: Path) -> None:
    data = Data(torch.randn(4, 6), torch.tensor([0, 1, 0, 1]), ("cat", "dog"))
    arguments = {"input_shape": [6], "classes": 2}
    bare = Model.load("modelkeep.architectures:dense", arguments=arguments, like=data)
    assert (bare.input_shape, bare.classes, bare.bounds) == ((6,), ("cat", "dog"), None)
    # What the file or the caller says comes first.
    named = Model(bare.module, input_shape=(6,), classes=("dog", "cat"), bounds=(-9, 9))
    named.save(tmp_path / "named.safetensors")
    weights = tmp_path / "named.safetensors"
    loaded = Model.load("modelkeep.architectures:dense", weights=weights, arguments=arguments, like=data)
    assert (loaded.classes, loaded.bounds) == (("dog", "cat"), (-9, 9))
    with pytest.raises(InputError, match="in the same order"):
        loaded.require_fit(data)
    told = Model.load("modelkeep.architectures:dense", arguments=arguments, like=data, bounds=(0, 1))
    assert told.bounds == (0, 1)


def test_logits_that_look_like_probabilities_by_chance_are_taken_as_they_are() -> None:
    model = Model(nn.Linear(2, 2, bias=False), input_shape=(2,), classes=2)
    with torch.no_grad():
        model.module.get_parameter("weight").copy_(torch.eye(2))
    assert model.predict(torch.tensor([[0.25, 0.75]])).tolist() == [1]
