"""A plan that fits into seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from modelkeep.papers.tang2024 import owner
from modelkeep.papers.tang2024.arrangement import arrange
from modelkeep.papers.tang2024.defences import _build_misinformation
from modelkeep.papers.tang2024.plans import SMALL
from modelkeep.training import Linear, Recipe


@pytest.fixture
def tiny() -> dict[str, Any]:
    """A plan for the digits."""
    short = Recipe(epochs=6, batch_size=64, learning_rate=Linear(5e-3, 0.0)).to_json()
    return replace(
        SMALL, examples=600, tested=200, training=short, queries=150, seeds=60, stealing=short, shadows=1, samples=3,
        shadowing=short, restoring=short,
    ).to_json()  # fmt: skip


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a process keeps for its next trial is not kept for the next test."""
    yield
    for kept in (owner._prepare_owner, arrange, _build_misinformation):
        kept.cache_clear()
