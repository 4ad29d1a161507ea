"""Keys: only the client decrypts, another client's secret gives noise, and a server's keys must be whole."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from modelkeep.core.errors import EncryptError
from modelkeep.encrypt.ckks.arithmetic import Arithmetic
from modelkeep.encrypt.ckks.keys import ClientKeys, EvaluationKeys
from modelkeep.encrypt.ckks.scheme import Scheme


def test_another_secret_decrypts_to_noise(scheme: Scheme, keys: ClientKeys) -> None:
    ciphertext = keys.encrypt([1.0, 2.0, 3.0])
    assert np.abs(ClientKeys(scheme).decrypt(ciphertext)[:3] - [1, 2, 3]).max() > 1


def test_keys_from_bytes_compute(scheme: Scheme, keys: ClientKeys) -> None:
    read = EvaluationKeys.read(scheme, *keys.evaluation_bytes([1]), [1])
    rotated = Arithmetic(scheme, read).rotate(keys.encrypt([1.0, 2.0]), 1)
    assert keys.decrypt(rotated)[0] == pytest.approx(2.0, abs=2e-3)


def test_a_galois_key_that_lacks_a_rotation_is_refused(scheme: Scheme, keys: ClientKeys) -> None:
    with pytest.raises(EncryptError, match=r"lacks the rotations \[2\]"):
        EvaluationKeys.read(scheme, *keys.evaluation_bytes([1]), [1, 2])


def test_the_secret_cannot_be_copied_or_shown(keys: ClientKeys) -> None:
    with pytest.raises(EncryptError, match="never leaves"):
        copy.copy(keys)
    assert repr(keys) == "ClientKeys(Parameters(degree=4096, primes=(36, 30, 36), scale_bits=30))"
