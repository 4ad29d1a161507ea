"""One small scheme and its keys for all tests of CKKS: making keys is what takes time."""

from __future__ import annotations

import pytest

from modelkeep.encrypt.ckks.arithmetic import Arithmetic
from modelkeep.encrypt.ckks.keys import ClientKeys
from modelkeep.encrypt.ckks.parameters import Parameters
from modelkeep.encrypt.ckks.scheme import Scheme

STEPS = (1, 2, 4, 512, 1024, -1)


@pytest.fixture(scope="session")
def scheme() -> Scheme:
    return Scheme(Parameters(4096, (36, 30, 36), 30))


@pytest.fixture(scope="session")
def keys(scheme: Scheme) -> ClientKeys:
    return ClientKeys(scheme)


@pytest.fixture(scope="session")
def arithmetic(scheme: Scheme, keys: ClientKeys) -> Arithmetic:
    return Arithmetic(scheme, keys.evaluation(STEPS))
