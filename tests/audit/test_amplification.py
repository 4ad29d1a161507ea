"""The audit says where predictions lean, and does not where errors go both ways."""

from __future__ import annotations

import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.audit.amplification import CheckAmplification


def leaning(shift: float, noise: float = 1.0, n: int = 400) -> tuple[Model, Data]:
    """A threshold on one feature that is `shift` off the middle of two Gaussian classes of one size."""
    random = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    x = y[:, None].float() + noise * torch.randn(n, 1, generator=random)
    layer = nn.Linear(1, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-1.0], [1.0]]))
        layer.bias.copy_(torch.tensor([0.5 - shift, -0.5 + shift]))
    model = Model(layer, input_shape=(1,), classes=("dog", "cat"), bounds=None)
    return model, Data(x, y, ("dog", "cat"), name="pets")


def test_a_model_that_leans_is_named_with_its_direction() -> None:
    section = CheckAmplification()(*leaning(shift=0.6), seed=0)
    (finding,) = section.findings
    assert (finding.id, finding.severity) == ("bias.amplified", "medium")
    assert "'cat' is predicted" in finding.measured
    assert "more often" in finding.measured
    assert "could not be avoided" in finding.measured
    assert section.measures[0].estimate.low > 0.1
    assert section.pictures[0].uri.startswith("data:image/")


def test_errors_in_both_directions_are_no_bias() -> None:
    (finding,) = CheckAmplification()(*leaning(shift=0.0, n=2000), seed=0).findings
    assert (finding.id, finding.severity) == ("bias.as-it-occurs", "good")


def test_few_examples_are_never_good_news() -> None:
    (finding,) = CheckAmplification()(*leaning(shift=0.0, n=20), seed=0).findings
    assert (finding.id, finding.severity) == ("bias.unclear", "unclear")
    model, data = leaning(shift=0.0)
    (alone,) = CheckAmplification()(model, data.of_class("dog"), seed=0).findings
    assert (alone.id, alone.severity) == ("bias.one-class", "unclear")
