"""The model in this process: the same bits for a row beside any other rows, and no surprise from the model."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn

from guard.gateway.gateways import SHAPE, small_model
from modelkeep import Model
from modelkeep.core.errors import PredictionError
from modelkeep.guard.gateway.backend import LocalBackend, softmax
from modelkeep.guard.protocol.tensors import Array

ROWS = np.random.default_rng(0).random((5, *SHAPE), dtype=np.float32)


async def predicted(backend: LocalBackend, *batches: Array) -> list[Array]:
    try:
        return list(await asyncio.gather(*(backend.predict(batch) for batch in batches)))
    finally:
        await backend.close()


def test_predictions_are_the_models_probabilities() -> None:
    model = small_model()
    (ours,) = asyncio.run(predicted(LocalBackend(model), ROWS))
    theirs = model.probs(torch.from_numpy(ROWS)).numpy()
    assert np.abs(ours - theirs).max() < 1e-6
    assert np.abs(ours.sum(axis=1) - 1).max() < 1e-15


def test_a_row_gets_the_same_bits_beside_any_other_rows() -> None:
    backend = LocalBackend(small_model())
    whole, first, turned, *alone = asyncio.run(
        predicted(backend, ROWS, ROWS[:2], ROWS[::-1].copy(), *(row[None] for row in ROWS))
    )
    assert (whole[:2] == first).all()
    assert (whole[::-1] == turned).all()
    assert (whole == np.concatenate(alone)).all()


@given(hnp.arrays(np.float32, (3, 4), elements=st.floats(-(2.0**99), 2.0**99, width=32)))
def test_softmax_is_torchs(logits: Array) -> None:
    theirs = torch.from_numpy(logits).double().softmax(dim=1).numpy()
    assert np.allclose(softmax(logits), theirs, rtol=1e-12, atol=1e-300)


def test_logits_that_are_none_are_an_error() -> None:
    model = small_model()
    backend = LocalBackend(model)
    nn.init.constant_(list(model.module.parameters())[-1], float("nan"))
    with pytest.raises(PredictionError, match="NaN"):
        asyncio.run(predicted(backend, ROWS))


def test_a_model_with_a_softmax_serves_its_own_probabilities() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Softmax(dim=1)).eval()
    (served,) = asyncio.run(predicted(LocalBackend(Model(module, input_shape=SHAPE, classes=4)), ROWS))
    with torch.no_grad():
        np.testing.assert_allclose(served, module(torch.from_numpy(ROWS)).numpy(), rtol=1e-6)
