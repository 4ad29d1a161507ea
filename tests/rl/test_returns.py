"""n-step returns against the sum that they stand for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.rl.returns import n_step_returns


@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 4), st.floats(0, 1))
def test_the_return_is_the_discounted_sum_up_to_the_end_of_the_episode(
    seed: int, n: int, count: int, discount: float
) -> None:
    draw = np.random.default_rng(seed)
    rewards = draw.normal(size=(n, count)).astype(np.float32)
    ended = draw.random((n, count)) < 0.3
    bootstrap = draw.normal(size=count).astype(np.float32)
    found = n_step_returns(rewards, ended, bootstrap, discount)
    for i in range(count):
        for t in range(n):
            expected, weight = 0.0, 1.0
            for k in range(t, n):
                expected += weight * float(rewards[k, i])
                weight *= discount
                if ended[k, i]:
                    break
            else:
                expected += weight * float(bootstrap[i])
            np.testing.assert_allclose(found[t, i], expected, rtol=1e-4, atol=1e-4)
