"""Certificates of TLS: OpenSSL and this code accept the same ones, each for its own name, and for some days."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from modelkeep.core.errors import WireError
from modelkeep.govern.identity import Identity
from modelkeep.govern.wire import endpoint
from modelkeep.govern.wire.certificate import (
    RENEWED,
    VALID,
    issue_certificate,
    present_certificate,
    require_certificate,
    trust_keys,
)
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.settings import Wire

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TLS_KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"  # of RFC 8032, section 7.1


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    return {name: Identity.at(tmp_path_factory.mktemp(name), name) for name in ("alice", "bob")}


@pytest.fixture(scope="module")
def keys(people: dict[str, Identity]) -> dict[str, str]:
    return {name: identity.public_key for name, identity in people.items()}


def shown_by(own: Identity, keys: dict[str, str], to: Identity) -> bytes:
    """The certificate that OpenSSL takes in a handshake in memory."""
    ends = []
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    for who, protocol in ((own, ssl.PROTOCOL_TLS_CLIENT), (to, ssl.PROTOCOL_TLS_SERVER)):
        context = ssl.SSLContext(protocol)
        context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
        present_certificate(context, who)
        trust_keys(context, keys)
        server = protocol == ssl.PROTOCOL_TLS_SERVER
        ends.append(context.wrap_bio(*((up, down) if server else (down, up)), server_side=server))
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[1].getpeercert(binary_form=True) or b""


def test_the_key_of_tls_is_another_one_each_time(people: dict[str, Identity], keys: dict[str, str]) -> None:
    found = [x509.load_der_x509_certificate(shown_by(people["alice"], keys, people["bob"])) for _ in range(2)]
    certified = {each.public_key().public_bytes_raw().hex() for each in found}  # type: ignore[union-attr]
    assert len(certified | set(keys.values())) == 4
    for each in found:
        assert require_certificate(each.public_bytes(Encoding.DER), keys) == "alice"
        assert each.not_valid_after_utc - datetime.now(UTC) <= VALID
        assert not each.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_nothing_of_the_key_of_tls_stays_on_disk(
    people: dict[str, Identity], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(people["alice"].folder.iterdir())
    present_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), people["alice"])
    assert not list(tmp_path.iterdir())
    assert sorted(people["alice"].folder.iterdir()) == before


@pytest.mark.parametrize(
    ("days", "valid"), [(-2, False), (-0.5, True), (0, True), (6.9, True), (7.1, False), (3000, False)]
)
def test_it_is_valid_for_days_on_both_clocks(
    people: dict[str, Identity], keys: dict[str, str], days: float, valid: bool
) -> None:
    made = issue_certificate(people["alice"], TLS_KEY, now=NOW).public_bytes(Encoding.DER)
    then = NOW + timedelta(days=days)
    if valid:
        assert require_certificate(made, keys, now=then) == "alice"
    else:
        with pytest.raises(WireError, match="The certificate of 'alice' is not valid now"):
            require_certificate(made, keys, now=then)


def test_no_changed_byte_goes_through(people: dict[str, Identity], keys: dict[str, str]) -> None:
    certificate = issue_certificate(people["alice"], TLS_KEY, now=NOW)
    made = certificate.public_bytes(Encoding.DER)
    start = made.index(certificate.tbs_certificate_bytes)
    signed = range(start, start + len(certificate.tbs_certificate_bytes))  # what follows repeats the algorithm's name
    for place in [*signed, *range(len(made) - 64, len(made))]:
        with pytest.raises(WireError):
            require_certificate(made[:place] + bytes([made[place] ^ 1]) + made[place + 1 :], keys, now=NOW)


def test_a_party_that_serves_for_months_renews_its_certificate(
    people: dict[str, Identity], keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, clock = list[ssl.SSLContext](), [1e9]
    monkeypatch.setattr(endpoint, "time", lambda: clock[0])
    monkeypatch.setattr(endpoint, "present_certificate", lambda context, identity: made.append(context))
    bob = Endpoint(people["bob"], keys, wire=Wire(), on_refused=lambda text: None)
    for passed in (0.0, 1.0, RENEWED.total_seconds(), 1.0, -10.0):  # the last time, the clock was set back
        clock[0] += passed
        assert bob._serve() is made[-1]
    assert len(made) == 3
    assert RENEWED < VALID
