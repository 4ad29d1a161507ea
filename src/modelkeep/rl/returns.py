"""n-step returns: what an agent got in the next few steps, and what it expected after them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def n_step_returns(
    rewards: NDArray[np.float32], ended: NDArray[np.bool_], bootstrap: NDArray[np.float32], discount: float
) -> NDArray[np.float32]:
    """R_t = r_t + γ R_{t+1}, with R_n = V(s_n), and nothing from beyond an end of an episode (Mnih2016).

    `rewards` and `ended` are `(n, count)`, `bootstrap` is V(s_n) `(count,)`.

    >>> n_step_returns(np.float32([[1], [2]]), np.array([[False], [False]]), np.float32([8]), 0.5).ravel().tolist()
    [4.0, 6.0]
    """
    returns = np.empty_like(rewards)
    following = bootstrap
    for t in reversed(range(len(rewards))):
        following = returns[t] = rewards[t] + discount * np.where(ended[t], 0, following)
    return returns
