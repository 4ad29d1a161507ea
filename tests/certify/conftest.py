"""A certificate that was handed over, made once for all tests of certificates."""

from __future__ import annotations

import pytest

from certify.certificates import Handed, hand_over


@pytest.fixture(scope="session")
def handed(tmp_path_factory: pytest.TempPathFactory) -> Handed:
    return hand_over(tmp_path_factory.mktemp("handed"))
