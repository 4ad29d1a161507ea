"""Intervals hold every value that the network has in the box."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from certify.networks import ACTIVATIONS, drawn
from modelkeep.certify.interpreter import run, run_operation
from modelkeep.certify.intervals import Interval, is_monotone, propagate
from modelkeep.certify.operations import Operation
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.core.errors import ModelError

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def activation(function: str, **settings: float) -> Operation:
    return Operation("made", "activation", ("input",), (1,), {"function": function, **settings})


@pytest.mark.parametrize("seed", range(12))
def test_no_value_leaves_its_interval(seed: int) -> None:
    try:
        model = drawn(seed)
    except ModelError:  # it ends in sigmoids
        return
    generator = torch.Generator().manual_seed(seed)
    operations, tensors = trace_operations(model), {k: t.detach().double() for k, t in tensors_of(model.module).items()}
    x = torch.randn(1, *model.input_shape, generator=generator).double()
    moves = torch.rand(400, *model.input_shape, generator=generator).double() * 2 - 1
    with torch.no_grad():
        known = {"input": Interval(x - 0.3, x + 0.3)}
        for operation in operations[1:]:
            known[operation.name] = propagate(operation, [known[name] for name in operation.inputs], tensors)
        for name, values in run(operations, x + 0.3 * torch.cat([moves, moves.sign()]), tensors).items():
            assert (values >= known[name].low).all(), name
            assert (values <= known[name].high).all(), name


def test_a_dense_layer_and_a_monotone_function_have_the_intervals_of_their_corners() -> None:
    weight = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    dense = Operation("made", "dense", ("input",), (1,), tensors={"weight": "w"})
    box = Interval(torch.tensor([[0.0, 0.0]]).double(), torch.tensor([[1.0, 1.0]]).double())
    found = propagate(dense, [box], {"w": weight})
    assert (found.low.item(), found.high.item()) == pytest.approx((-2, 1))
    assert propagate(activation("relu"), [found], {}).high.item() == pytest.approx(1)
    assert propagate(activation("abs"), [found], {}).low.item() == 0


def test_functions_that_fall_are_not_called_monotone() -> None:
    z = torch.linspace(-6, 6, 2001).double()[:, None]
    settings = {"leaky_relu": {"slope": -0.5}, "elu": {"alpha": -1.0}, "hardtanh": {"low": -1.0, "high": 1.0}}
    for function in ("relu", "relu6", "selu", "softplus", "tanh", "sigmoid", "softsign", "gelu", "silu", *settings):
        operation = activation(function, **settings.get(function, {}))
        rises = bool((run_operation(operation, [z], {}).diff(dim=0) >= -1e-12).all())
        assert rises or not is_monotone(operation), function
    assert isinstance(ACTIVATIONS["relu"](), nn.ReLU)
