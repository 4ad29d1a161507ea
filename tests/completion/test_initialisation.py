"""Drawing anew: each scheme's closed-form distribution, everything kept to the bit, nothing of the old to be seen."""

from __future__ import annotations

from copy import deepcopy
from math import prod, sqrt

import pytest
import torch
from torch import nn

from modelkeep.completion.initialisation import SCHEMES, Scheme, reset
from modelkeep.completion.part import Part
from modelkeep.core.errors import InputError
from modelkeep.training.part import tensors_of
from modelkeep.zoo.architectures import small_resnet

WHOLE = Part("all", ("",))


def fans(weight: torch.Tensor) -> tuple[int, int]:
    field = prod(weight.shape[2:])
    return weight.shape[1] * field, weight.shape[0] * field


@pytest.mark.parametrize("layer", [nn.Linear(400, 250), nn.Conv2d(30, 50, 7)], ids=["linear", "conv"])
@pytest.mark.parametrize("scheme", [*SCHEMES, "own"])
def test_weights_have_the_variance_and_the_bounds_of_their_scheme(scheme: Scheme, layer: nn.Module) -> None:
    reset(layer, WHOLE, scheme=scheme, seed=0)
    weight = dict(layer.named_parameters())["weight"].detach()
    fan_in, fan_out = fans(weight)
    variance = {
        "own": 1 / (3 * fan_in),
        "glorot uniform": 2 / (fan_in + fan_out),
        "glorot normal": 2 / (fan_in + fan_out),
        "msra": 2 / fan_in,
        "caffe": 1 / fan_in,
        "orthogonal": 1 / max(weight.shape[0], prod(weight.shape[1:])),
    }[scheme]
    # Over 70,000 numbers: the standard error of a variance is at most 0.5 %.
    assert weight.var().item() == pytest.approx(variance, rel=0.03)
    assert abs(weight.mean().item()) < 5 * sqrt(variance / weight.numel())
    if scheme in ("own", "glorot uniform", "caffe"):
        assert weight.abs().max().item() == pytest.approx(sqrt(3 * variance), rel=1e-3)
    if scheme in ("glorot normal", "msra"):
        beyond = (weight.abs() > 2 * sqrt(variance)).double().mean().item()
        assert beyond == pytest.approx(0.0455, abs=0.006)
    if scheme == "orthogonal":
        rows = weight.flatten(1)
        assert torch.allclose(rows @ rows.T, torch.eye(len(rows)), atol=1e-5)


@pytest.mark.parametrize(
    "part",
    [
        Part("layer", ("conv1",)),
        Part("no skip", ("section2.block1",), without=("section2.block1.skip",)),
        Part("no norm", ("section2.block1",), without=("section2.block1.residual.conv1.norm.weight",)),
        Part("share", ("section1", "logits"), share=0.3),
        Part("weight", ("logits.weight",)),
    ],
    ids=lambda part: part.name,
)
@pytest.mark.parametrize("scheme", ["own", "msra"])
def test_the_missing_is_new_and_the_rest_is_kept_to_the_bit(part: Part, scheme: Scheme) -> None:
    network = small_resnet((1, 8, 8), 3, blocks=1, width=4)
    with torch.no_grad():
        for tensor in tensors_of(network).values():
            tensor.copy_(torch.full_like(tensor, 7))
    missing = part.missing_elements(network)
    reset(network, part, scheme=scheme, seed=3)
    for name, tensor in tensors_of(network).items():
        if name in missing:
            assert torch.equal(tensor == 7, ~missing[name]), name
        elif name in part and part.share == 1:
            assert not (tensor == 7).any(), name  # a statistic of the part
        else:
            assert (tensor == 7).all(), name


def test_norms_begin_as_norms_under_any_scheme() -> None:
    for scheme in SCHEMES:
        norm = nn.Sequential(nn.BatchNorm2d(3), nn.LayerNorm(4))
        with torch.no_grad():
            for tensor in tensors_of(norm).values():
                tensor.fill_(5)
        reset(norm, WHOLE, scheme=scheme, seed=0)
        fresh = tensors_of(nn.Sequential(nn.BatchNorm2d(3), nn.LayerNorm(4)))
        assert all(torch.equal(tensor, fresh[name]) for name, tensor in tensors_of(norm).items())


@pytest.mark.parametrize("scheme", ["own", *SCHEMES])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_what_is_drawn_depends_on_the_seed_and_not_on_what_was_missing(scheme: Scheme, share: float) -> None:
    part = Part("part", ("1", "2"), share=share)
    torch.manual_seed(0)
    one = nn.Sequential(nn.Linear(4, 6), nn.LSTM(6, 5), nn.MultiheadAttention(4, 2), nn.Linear(4, 2))
    two = deepcopy(one)
    with torch.no_grad():
        for name, chosen in part.missing_elements(two).items():
            two.get_parameter(name).masked_fill_(chosen, 1e6)
    three = deepcopy(one)
    before = torch.get_rng_state()
    reset(one, part, scheme=scheme, seed=5)
    reset(two, part, scheme=scheme, seed=5)
    reset(three, part, scheme=scheme, seed=6)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.get_parameter("1.weight_hh_l0"), three.get_parameter("1.weight_hh_l0"))
    assert torch.equal(one.get_parameter("0.weight"), three.get_parameter("0.weight"))


def test_attention_begins_as_its_constructor_has_it() -> None:
    attention = nn.MultiheadAttention(4, 2)
    nn.init.ones_(attention.out_proj.bias)
    reset(attention, WHOLE, seed=0)
    # The constructor first draws out_proj, then sets its bias to 0.
    assert not attention.out_proj.bias.any()


def test_a_layer_does_not_begin_as_in_the_original_training_of_the_same_seed() -> None:
    one, two = nn.Sequential(nn.Linear(3, 3)), nn.Sequential(nn.Linear(3, 3))
    reset(one, WHOLE, seed=0)
    reset(two, Part("layer", ("0",)), seed=0)
    assert not torch.equal(one.get_parameter("0.weight"), two.get_parameter("0.weight"))


class Scaled(nn.Module):
    """A module with a parameter that nobody can draw."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((3,), 2.0))
        self.linear = nn.Linear(3, 3)


def test_a_parameter_that_no_module_draws_is_an_error_that_changes_nothing() -> None:
    module = Scaled()
    before = deepcopy(module.state_dict())
    with pytest.raises(InputError, match=r"'scale' is drawn.*reset_parameters"):
        reset(module, WHOLE, seed=0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    reset(module, Part("linear", ("linear",)), seed=0)
    assert not torch.equal(module.linear.weight, before["linear.weight"])


def test_an_unknown_scheme_is_an_error() -> None:
    with pytest.raises(InputError, match="scheme"):
        reset(nn.Linear(2, 2), WHOLE, scheme="xavier", seed=0)  # type: ignore[arg-type]
