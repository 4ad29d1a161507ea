"""What CKKS can compute is planned with its cost; what it cannot is refused by the name of the layer."""

from __future__ import annotations

import torch
from torch import nn

from digits import digits_cnn, held_out_digits
from modelkeep import Model
from modelkeep.audit.encryption import CheckEncryption
from modelkeep.encrypt.polynomial import Polynomial


def test_a_network_of_affine_layers_and_squares_can_run_at_a_cost() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), Polynomial(), nn.Linear(8, 10))
    model = Model(network, input_shape=(1, 8, 8), classes=10)
    (finding,) = CheckEncryption()(model, held_out_digits(), seed=0).findings
    assert (finding.id, finding.status) == ("encryption.can-run", "pass")
    assert "Planned, not run" in finding.measured
    assert "128-bit" in finding.measured


def test_another_activation_is_named_with_what_replaces_it() -> None:
    (finding,) = CheckEncryption()(digits_cnn(), held_out_digits(), seed=0).findings
    assert (finding.id, finding.status) == ("encryption.as-it-is-not", "inconclusive")
    assert "'conv1_relu' is a ReLU" in finding.measured
    assert "--replace" in finding.fix


def test_wide_inputs_are_not_timed_as_if_they_were_read() -> None:
    wide = Model(nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 2)), input_shape=(3, 64, 64), classes=2)
    assert CheckEncryption().cost(wide, held_out_digits()).passes == 1
    assert CheckEncryption().cost(digits_cnn(), held_out_digits()).passes == 4 * 64
