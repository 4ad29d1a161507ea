"""Results keep what they hold: intervals are right, JSON comes back bit for bit, damage is noticed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from modelkeep import Estimate, Result
from modelkeep.core.errors import InputError, ResultError
from modelkeep.core.results import Provenance, Tensor, measured

PROVENANCE = Provenance(model="m", data=None, seed=3, seconds=0.5, version="0")


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighed(Result):
    """A result as a capability would write it."""

    rate: Estimate
    values: Tensor
    names: tuple[str, ...]
    worst: float

    def rows(self) -> list[tuple[str, str]]:
        return [("rate", str(self.rate)), ("names", ", ".join(self.names))]


def weighed(values: torch.Tensor, worst: float = 0.0) -> Weighed:
    return Weighed(provenance=PROVENANCE, rate=Estimate.rate(3, 4), values=values, names=("a", "b"), worst=worst)


@given(st.integers(1, 400), st.data())
def test_the_interval_of_a_rate_is_the_exact_binomial_one(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    ours = Estimate.rate(k, n)
    theirs = stats.binomtest(k, n).proportion_ci(confidence_level=0.95, method="exact")
    assert ours.value == k / n
    assert ours.low == pytest.approx(theirs.low, abs=1e-9)
    assert ours.high == pytest.approx(theirs.high, abs=1e-9)


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="Got 0 of 0"):
        Estimate.rate(0, 0)


def test_the_bootstrap_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    hits = sum(
        not Estimate.bootstrap(random.normal(1.0, 2.0, 50), seed=i, resamples=400).excludes(1.0) for i in range(300)
    )
    # 95 % nominal; the percentile bootstrap on 50 samples is a little short, 300 trials have a 3 σ band of ±4 %.
    assert 0.89 <= hits / 300 <= 0.985


def test_the_bootstrap_is_seeded_and_chunked_alike() -> None:
    samples = np.linspace(0, 1, 30)
    assert Estimate.bootstrap(samples, seed=1) == Estimate.bootstrap(samples, seed=1)
    assert Estimate.bootstrap(samples, seed=1) != Estimate.bootstrap(samples, seed=2)
    with pytest.raises(InputError, match="finite"):
        Estimate.bootstrap([1.0, float("nan")], seed=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool, torch.uint8])
def test_json_gives_tensors_back_bit_for_bit(dtype: torch.dtype) -> None:
    values = (torch.randn(2, 3, generator=torch.Generator().manual_seed(0)) * 9).to(dtype)
    back = Result.from_json(weighed(values).to_json())
    assert isinstance(back, Weighed)
    assert torch.equal(back.values, values)
    assert back.values.dtype == dtype
    assert back.rate == Estimate.rate(3, 4)
    assert back.names == ("a", "b")
    assert back.provenance == PROVENANCE


@pytest.mark.parametrize("worst", [float("inf"), float("-inf"), float("nan"), 0.1])
def test_json_is_strict_and_keeps_infinities(worst: float) -> None:
    text = weighed(torch.zeros(1), worst).to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert np.array_equal(Weighed.from_json(text).worst, worst, equal_nan=True)


def test_an_empty_tensor_comes_back() -> None:
    assert Weighed.from_json(weighed(torch.zeros(0, 3)).to_json()).values.shape == (0, 3)


def test_damaged_json_is_refused_with_a_reason() -> None:
    good = json.loads(weighed(torch.zeros(2)).to_json())
    for damage, message in [
        ("{", "not a stored ModelKeep result"),
        ("[]", "not a stored ModelKeep result"),
        (json.dumps({**good, "kind": "os.system"}), "Unknown kind of result 'os.system'"),
        (json.dumps({**good, "schema": 99}), "stored with schema 99"),
        (json.dumps({**good, "values": {"dtype": "float32", "shape": [9], "base64": "AAAA"}}), "damaged"),
        (json.dumps({**good, "extra": 1}), "damaged"),
        (json.dumps({k: v for k, v in good.items() if k != "rate"}), "damaged"),
    ]:
        with pytest.raises(ResultError, match=message):
            Result.from_json(damage)


def test_a_subclass_insists_on_its_kind() -> None:
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Other(Result):
        pass

    with pytest.raises(ResultError, match="Expected a stored Other"):
        Other.from_json(weighed(torch.zeros(1)).to_json())


def test_a_result_prints_as_a_table_and_says_when_it_has_no_picture() -> None:
    text = str(weighed(torch.zeros(1)))
    assert "0.750 [0.194, 0.994] n=4" in text
    assert "seed 3" in text
    with pytest.raises(InputError, match="Weighed has no picture"):
        weighed(torch.zeros(1)).draw()


def test_measured_takes_the_time() -> None:
    with measured(seed=5, model="m") as provenance:
        pass
    assert provenance().seconds >= 0
    assert provenance().model == "m"


def test_a_kind_of_ours_is_read_without_importing_its_package() -> None:
    """In a fresh process that has imported the results alone."""
    kind = "modelkeep.papers.paper.PaperTable"
    provenance = {"model": None, "data": None, "seed": 0, "seconds": 0.0, "version": "0"}
    text = json.dumps(
        {"kind": kind, "schema": 1, "provenance": provenance, "study": "s", "where": "w", "cells": [], "claims": []}
    )
    code = f"from modelkeep.core.results import Result; print(type(Result.from_json({text!r})).__name__)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "PaperTable"
