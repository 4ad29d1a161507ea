"""Between the two lines stays the function, for every interval that was drawn."""

from __future__ import annotations

import pytest
import torch

from modelkeep.certify.interpreter import run_operation
from modelkeep.certify.intervals import Interval
from modelkeep.certify.operations import ACTIVATIONS, Operation
from modelkeep.certify.relaxation import relax

SETTINGS: dict[str, list[dict[str, float]]] = {
    "leaky_relu": [{"slope": 0.1}, {"slope": -2.5}, {"slope": 3.0}],
    "elu": [{"alpha": 1.0}, {"alpha": 4.0}, {"alpha": -0.5}],
    "hardtanh": [{"low": -0.3, "high": 0.7}],
}
CASES = [(function, settings) for function in ACTIVATIONS for settings in SETTINGS.get(function, [{}])]


@pytest.mark.parametrize(("function", "settings"), CASES)
def test_the_function_stays_between_its_lines(function: str, settings: dict[str, float]) -> None:
    operation = Operation("made", "activation", ("input",), (1,), {"function": function, **settings})
    generator = torch.Generator().manual_seed(0)
    ends = torch.randn(3000, 2, generator=generator).double() * torch.tensor([0.01, 1.0, 30.0]).repeat(1000)[:, None]
    z = Interval(ends.amin(dim=1, keepdim=True), ends.amax(dim=1, keepdim=True))
    lines = relax(operation, z)
    inside = z.low + (z.high - z.low) * torch.linspace(0, 1, 101).double()
    made = run_operation(operation, [inside], {})
    assert (lines.below * inside + lines.below_offset <= made + 1e-12).all()
    assert (lines.above * inside + lines.above_offset >= made - 1e-12).all()


def test_the_lines_of_relu_are_those_of_the_paper() -> None:
    low, high = torch.tensor([[-1.0, -3.0, 1.0, -2.0], [3.0, 1.0, 2.0, 0.0]]).double()
    z = Interval(low[:, None], high[:, None])
    lines = relax(Operation("made", "activation", ("input",), (1,), {"function": "relu"}), z)
    assert lines.above.flatten().tolist() == pytest.approx([0.75, 0.25, 1, 0])
    assert lines.above_offset.flatten().tolist() == pytest.approx([0.75, 0.75, 0, 0], abs=1e-7)
    assert lines.below.flatten().tolist() == [1, 0, 1, 0]
