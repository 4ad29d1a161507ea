"""Processes in which Bob and Carol serve, shared by all tests of this folder: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from govern.parties import Host


@pytest.fixture(scope="session")
def hosts() -> Iterator[dict[str, Host]]:
    running = {name: Host() for name in ("bob", "carol")}
    yield running
    for host in running.values():
        host.close()
