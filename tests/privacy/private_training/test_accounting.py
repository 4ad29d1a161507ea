"""Accounting: against Google's dp-accounting, closed forms, and the figures of the thesis."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from modelkeep.core.errors import InputError
from modelkeep.privacy.private_training import advantage_bounds, epsilon_of, noise_for


def by_google(noise: float, rate: float, steps: int, delta: float, kind: str) -> float:
    from dp_accounting import dp_event
    from dp_accounting.pld import pld_privacy_accountant
    from dp_accounting.rdp import rdp_privacy_accountant

    book = pld_privacy_accountant.PLDAccountant() if kind == "prv" else rdp_privacy_accountant.RdpAccountant()
    one = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise))
    book.compose(dp_event.SelfComposedDpEvent(one, steps))
    return float(book.get_epsilon(delta))


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 256 / 15000, 590), (0.8, 0.05, 200), (4.0, 0.1, 100)])
@pytest.mark.parametrize("kind", ["prv", "rdp"])
def test_epsilon_is_that_of_another_library(noise: float, rate: float, steps: int, kind: str) -> None:
    found = epsilon_of(noise=noise, rate=rate, steps=steps, delta=1e-5, accountant=kind)
    other = by_google(noise, rate, steps, 1e-5, kind)
    # Both are upper bounds, and PRV states an error of 0.01.
    assert found == pytest.approx(other, abs=0.02)


@given(noise=st.floats(0.6, 5), delta=st.floats(1e-6, 1e-2))
@settings(max_examples=15, deadline=None)
def test_one_step_on_everyone_has_a_closed_form(noise: float, delta: float) -> None:
    """The Gaussian mechanism: δ = Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ) (Balle2018)."""
    found = epsilon_of(noise=noise, rate=1.0, steps=1, delta=delta)
    spent = norm.cdf(0.5 / noise - found * noise) - math.exp(found) * norm.cdf(-0.5 / noise - found * noise)
    assert spent <= delta * (1 + 1e-6)
    assert (
        found <= 0.011
        or norm.cdf(0.5 / noise - (found - 0.03) * noise)
        - math.exp(found - 0.03) * norm.cdf(-0.5 / noise - (found - 0.03) * noise)
        >= delta
    )


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 16.0])
def test_the_noise_for_an_epsilon_gives_it_and_hardly_less_would_not(epsilon: float) -> None:
    run = {"rate": 256 / 15000, "steps": 590, "delta": 1e-5}
    noise = noise_for(epsilon, accountant="rdp", **run)
    assert epsilon_of(noise=noise, accountant="rdp", **run) <= epsilon
    assert epsilon_of(noise=noise / 1.003, accountant="rdp", **run) > epsilon
    assert noise == pytest.approx({1.0: 1.895, 4.0: 0.869, 16.0: 0.530}[epsilon], rel=0.003)


def test_bounds_on_the_advantage() -> None:
    assert advantage_bounds(0.25, 0.0)[0] / 2 + 0.5 == pytest.approx(0.642, abs=5e-4)  # Leino2022, appendix C.1
    assert advantage_bounds(math.log(2), 0.0)[0] == pytest.approx(1.0)
    assert advantage_bounds(1000.0, 0.0) == (1.0, 1.0)
    loose, tight = advantage_bounds(0.1, 1e-5)
    assert tight < loose


def test_what_makes_no_sense_is_refused() -> None:
    assert epsilon_of(noise=0.0, rate=0.1, steps=1, delta=1e-5) == math.inf
    with pytest.raises(InputError, match="between 0 and 1"):
        epsilon_of(noise=1.0, rate=1.5, steps=1, delta=1e-5)
    with pytest.raises(InputError, match="above 0"):
        noise_for(0.0, rate=0.1, steps=1, delta=1e-5)
