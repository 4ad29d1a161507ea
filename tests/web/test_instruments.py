"""The instruments of an open model are made once, and go with it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from modelkeep import Data, Model
from modelkeep.audit.sources import Sources
from modelkeep.web.instruments import instruments_of
from modelkeep.web.workspace import NotOpen, Opened, Workspace
from web.given import Given


def test_they_are_made_once_and_kept_no_longer_than_the_model(
    trained_cnn: Model, digits: tuple[Data, Data], tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path, Given(trained_cnn, digits[1]))
    opened = Opened(trained_cnn, digits[1], Sources("cnn", "digits"))
    found = instruments_of(workspace, opened)
    assert found is instruments_of(workspace, opened)
    assert found.explorer is found.explorer
    assert found.stored() == {}
    with pytest.raises(NotOpen, match="not known"):
        found.leak(0)
    kept = weakref.ref(opened)
    del opened
    gc.collect()
    assert kept() is None


def test_one_lock_serves_all_models(trained_cnn: Model, trained_dense: Model, digits: tuple[Data, Data]) -> None:
    first, second = (Opened(model, digits[1], Sources()) for model in (trained_cnn, trained_dense))
    assert first.lock is second.lock, "torch.fx patches nn.Module for all threads while it traces one network"
