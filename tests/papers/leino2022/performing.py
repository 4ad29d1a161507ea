"""Trials that run in this process, without workers and ledger, and what a study makes of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Literal

import pytest

from modelkeep import Data
from modelkeep.core.results import Provenance
from modelkeep.study import Record, StudyResult, Trial, working_in
from modelkeep.zoo import datasets


def performed(trials: Sequence[Trial]) -> StudyResult:
    """All of them, done."""
    records = []
    for t in trials:
        module, _, name = t.home.partition(":")
        with tempfile.TemporaryDirectory() as folder, working_in(folder):
            value = json.loads(json.dumps(getattr(import_module(module), name)(seed=t.seed, **t.parameters)))
        records.append(Record(t.identity, t.name, 1, t.parameters, t.seed, t.home, "done", 1, 1.0, value, None))
    return StudyResult(study="tiny", records=tuple(records), provenance=Provenance(None, None, 0, 1.0, "test"))


@contextmanager
def digits_as_mnist() -> Iterator[None]:
    """For this time a trial that loads MNIST gets the small digits, which are there without a download."""
    load = datasets.load

    def load_digits(name: str, part: Literal["train", "test"]) -> Data:
        assert name == "mnist"
        return load("digits", part)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(datasets, "load", load_digits)
        yield


def without(result: StudyResult, index: int) -> StudyResult:
    """The same, but one of the trials has failed."""
    records = list(result.records)
    records[index] = replace(records[index], state="failed", value=None, error="ValueError: broken")
    return replace(result, records=tuple(records))
