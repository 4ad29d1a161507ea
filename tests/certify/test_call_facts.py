"""The size of the batch and the type of the input may shape a value, and never be a part of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from certify.networks import Net, exactly, model_of
from modelkeep.certify.gloro import GloRoNet
from modelkeep.certify.interpreter import run
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.core.errors import ModelError

# All of them are the plain network at batches of 2 and 3, which were compared before, and another one elsewhere.
REFUSED: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "from four on": lambda s, x: s.inner(x) * (1 + 4 * (x.shape[0] // 4)),
    "of one": lambda s, x: s.inner(x) / (1 + 4 * (x.size(0) == 1)),
    "from 64 on": lambda s, x: s.inner(x) + torch.ones(4) * (x.size()[0] // 64),
    "by all numbers": lambda s, x: s.inner(x) * (1 + x.numel() // 100),
    "by a part of the shape": lambda s, x: s.inner(x) * (1 + sum(x.shape[i] // 4 for i in (-2,))),
    "by the end of the shape": lambda s, x: s.inner(x) * (1 + x.shape[:1][0] // 4),
    "by a made tensor": lambda s, x: s.inner(x) + torch.full((4,), x.shape[0] // 4),
    "by what is reshaped": lambda s, x: s.inner(x.view(x.shape[0] * 2, 2).reshape(x.shape[0], x.shape[0] // 4 + 4)),
    "by the type": lambda s, x: s.inner(x) * (1 + 4 * (x.dtype == torch.float16)),
    "by the device": lambda s, x: s.inner(x) * (1 + 4 * (x.device == torch.device("meta"))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_made_of_the_batch_or_the_type_is_refused(name: str) -> None:
    module = Net(REFUSED[name], inner=nn.Linear(4, 4))
    with pytest.raises(ModelError, match=r"size of the batch|mixes inputs"):
        GloRoNet(model_of(module, 4, classes=4), 0.1)


ACCEPTED: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "view": lambda s, x: s.inner(x.view(x.size(0), -1)),
    "all sizes": lambda s, x: s.inner(x.reshape(x.shape[0], x.shape[1] * x.shape[2])),
    "as it was": lambda s, x: s.inner(x.flatten(1).view(x.shape).flatten(1)),
    "a longer shape": lambda s, x: s.inner(x.view(x.shape[:1] + (-1,))),  # noqa: RUF005 - torch.fx cannot unpack
    "scaled by its features": lambda s, x: s.inner(x.flatten(1)) / x.shape[1] + x.size(-1),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_shapes_may_say_how_many_inputs_there_are(name: str) -> None:
    model = model_of(Net(ACCEPTED[name], inner=nn.Linear(4, 4)), 2, 2, classes=4)
    written, x = trace_operations(model), torch.randn(7, 2, 2, generator=torch.Generator().manual_seed(0)).double()
    found = run(written, x, tensors_of(model.module))[written[-1].name]
    torch.testing.assert_close(found, exactly(model)(x), rtol=1e-12, atol=1e-12)
