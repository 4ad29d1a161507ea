"""Flooding: noise on decrypted values before they are shown to the server or to anyone who may talk to it.

Decrypted CKKS values contain the noise of their ciphertext, and the noise is a linear function of the secret key: a
server that gets them back next to the ciphertext solves for the key (Li2021). Noise that drowns it ends that: for s
bits of statistical security over q values, its deviation is sqrt(12 q) · 2^(s/2) times the ciphertext's noise (Li2022).
"""

from __future__ import annotations

import math
import secrets

import numpy as np

from modelkeep.core.errors import bad_parameter
from modelkeep.encrypt.ckks.scheme import Floats


def flood(values: Floats, error: float, *, bits: int = 30, queries: int = 1) -> Floats:
    """The values with Gaussian noise that hides the noise of encryption.

    Args:
        values: what was decrypted.
        error: the largest noise of encryption, as the plan predicts it.
        bits: bits of statistical security.
        queries: how many answers under one secret key are shared in all.

    >>> bool(abs(flood(np.zeros(1000), 1e-9, bits=20)).max() > 1e-9)
    True
    """
    if bits < 1 or queries < 1:
        raise bad_parameter("flood", "bits" if bits < 1 else "queries", "at least 1", bits if bits < 1 else queries)
    deviation = error * math.sqrt(12 * queries) * 2 ** (bits / 2)
    # From the system's own randomness: who could guess a seed could take the noise off again.
    random = np.random.default_rng(secrets.randbits(256))
    return values + random.normal(0.0, deviation, values.shape)
