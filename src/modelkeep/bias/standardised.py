"""A softmax classifier that is fitted on standardised features and then written in the features as they come.

A linear layer that is trained on features of other means and spreads learns its biases and the weights of small
features last; where training stops earlier, it leans to the larger class (Leino2022, section 9.2). Centred and scaled,
all weights are learned alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from modelkeep.bias.gaussian import from_first
from modelkeep.core.errors import TrainingError

Array = NDArray[Any]


def fit_standardised(features: Array, labels: Array, classes: int, strength: float) -> tuple[Array, Array]:
    """The weights `(classes, d)` and biases `(classes,)` of the least mean cross-entropy + strength / 2 × ‖weights‖².

    The penalty is on weights in units of each feature's standard deviation, and not on the biases. At the optimum the
    mean probability of each class over the data is therefore its share: whatever is amplified comes from taking the
    largest probability.

    Args:
        features: `(n, d)`; a feature that does not vary gets no weight.
        labels: `(n,)` in `range(classes)`.
        classes: Their number.
        strength: Of the penalty, against the mean loss.

    >>> weight, bias = fit_standardised(np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([0, 0, 1, 1]), 2, 0.01)
    >>> bool(abs(weight[1, 0] * 2.5 + bias[1] - weight[0, 0] * 2.5 - bias[0]) < 1e-4)
    True
    """
    start, centred = features[0], from_first(features)
    mean, scale = centred.mean(axis=0), centred.std(axis=0)
    varies = scale > 0
    z = (centred[:, varies] - mean[varies]) / scale[varies]
    n, width = z.shape
    target = np.eye(classes)[labels]

    def loss(flat: Array) -> tuple[float, Array]:
        weights, biases = flat[: classes * width].reshape(classes, width), flat[classes * width :]
        scores = z @ weights.T + biases
        off = np.exp(scores - logsumexp(scores, axis=1, keepdims=True)) - target
        value = (logsumexp(scores, axis=1) - (scores * target).sum(axis=1)).mean() + strength / 2 * (weights**2).sum()
        slope = np.concatenate([(off.T @ z / n + strength * weights).ravel(), off.mean(axis=0)])
        return float(value), slope

    found = minimize(
        loss, np.zeros(classes * (width + 1)), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "gtol": 1e-7}
    )
    if np.abs(loss(found.x)[1]).max() > 1e-4:
        raise TrainingError(f"The fit did not converge: {found.message}. Take a strength above {strength:g}.")
    weight = np.zeros((classes, features.shape[1]))
    weight[:, varies] = found.x[: classes * width].reshape(classes, width) / scale[varies]
    return weight, found.x[classes * width :] - weight @ (start + mean)
