"""Quantised and pruned copies, against what they are by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.errors import InputError
from modelkeep.papers.saha2020.plasticity.compression import prune, quantise


def weights(model: Model) -> torch.Tensor:
    layers = [part for part in model.module.modules() if isinstance(part, nn.Linear | nn.Conv2d)]
    return torch.cat([layer.weight.detach().flatten() for layer in layers])


def test_quantisation_rounds_to_the_nearest_level() -> None:
    module = nn.Linear(4, 2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[-3.0, -1.4, -0.4, 0.0], [0.6, 1.4, 2.0, 2.9]]))
    model = Model(module, input_shape=(4,), classes=2)
    # Three bits: -3, -2 … 3 times a step of 1.
    assert weights(quantise(model, 3)).tolist() == [-3, -1, 0, 0, 1, 1, 2, 3]
    assert torch.equal(quantise(model, 3).module.state_dict()["bias"], module.bias)


def test_more_bits_are_nearer_and_no_layer_has_more_values_than_levels(small_cnn: Model) -> None:
    before = small_cnn.fingerprint()
    errors = []
    for bits in (2, 4, 8):
        copy = quantise(small_cnn, bits)
        errors.append(float((weights(copy) - weights(small_cnn)).abs().max()))
        for part in copy.module.modules():
            if isinstance(part, nn.Linear | nn.Conv2d):
                assert len(set(part.weight.flatten().tolist())) <= 2**bits - 1
    assert errors[0] > errors[1] > errors[2] > 0
    assert small_cnn.fingerprint() == before


@pytest.mark.parametrize("percent", [0, 50, 90])
def test_pruning_removes_the_smallest_of_all_layers_together(small_cnn: Model, percent: int) -> None:
    before = weights(small_cnn)
    after = weights(prune(small_cnn, percent / 100))
    gone = after == 0
    assert int(gone.sum()) == round(len(before) * percent / 100)
    assert torch.equal(after[~gone], before[~gone])
    if percent:
        assert before[gone].abs().max() <= before[~gone].abs().min()
    assert torch.equal(weights(small_cnn), before)


def test_what_is_out_of_range_is_refused(small_cnn: Model) -> None:
    with pytest.raises(InputError, match="'bits' parameter of quantised must be at least 2"):
        quantise(small_cnn, 1)
    with pytest.raises(InputError, match="'share' parameter of pruned"):
        prune(small_cnn, 1.0)
