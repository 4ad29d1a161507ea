"""What SEAL reads from bytes is checked; damaged, foreign and secret things are refused."""

from __future__ import annotations

import numpy as np
import pytest

from modelkeep.core.errors import EncryptError
from modelkeep.encrypt.ckks.keys import ClientKeys
from modelkeep.encrypt.ckks.parameters import Parameters
from modelkeep.encrypt.ckks.scheme import Scheme, seal, to_bytes


def test_a_ciphertext_comes_back_from_its_bytes(scheme: Scheme, keys: ClientKeys) -> None:
    values = np.linspace(-1, 1, scheme.slots)
    read = scheme.read_ciphertext(keys.encrypt_bytes(values))
    np.testing.assert_allclose(keys.decrypt(read), values, atol=2e-3)


def test_levels_and_primes_are_those_of_seal(scheme: Scheme) -> None:
    assert scheme.level(scheme.encode(1.0, level=1)) == 1
    assert [prime.bit_length() for prime in scheme.primes] == [36, 30, 36]
    assert scheme.prime(0) == scheme.primes[1]


def test_damaged_bytes_are_refused_in_a_sentence(scheme: Scheme, keys: ClientKeys) -> None:
    content = keys.encrypt_bytes([1.0])
    for bad in (b"", content[:50], content[:-9], b"x" * 400, content[:8] + b"\xff" * 8 + content[16:]):
        with pytest.raises(EncryptError, match="cannot be used"):
            scheme.read_ciphertext(bad)


def test_a_ciphertext_of_other_parameters_is_refused(scheme: Scheme) -> None:
    other = ClientKeys(Scheme(Parameters(4096, (36, 31, 36), 30)))
    with pytest.raises(EncryptError, match="other parameters"):
        scheme.read_ciphertext(other.encrypt_bytes([1.0]))


def test_the_secret_key_has_no_bytes(scheme: Scheme) -> None:
    with pytest.raises(EncryptError, match="never leaves"):
        to_bytes(seal.KeyGenerator(scheme.context).secret_key())
