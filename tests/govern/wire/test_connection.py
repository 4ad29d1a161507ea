"""Connections between parties: what crosses arrives as it was, and nobody and nothing else gets in or holds it up."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from modelkeep.core.errors import GovernError, InputError, PartyUnavailable, WireError
from modelkeep.core.signing import Signer
from modelkeep.govern.identity import Identity
from modelkeep.govern.wire import listener
from modelkeep.govern.wire.certificate import issue_certificate, present_certificate
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.listener import Listener
from modelkeep.govern.wire.message import DTYPES, MAGIC, PRELUDE, Digest, Message, frame
from modelkeep.govern.wire.settings import Wire

LOOPBACK = "127.0.0.1:0"
WIRES = {
    "plain": Wire(),
    "bfloat16": Wire(dtype="bfloat16"),
    "zstd": Wire(compression="zstd"),
    "both": Wire(dtype="bfloat16", compression="zstd"),
}
QUICK = Wire(deadline=0.3)


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    """Alice and Bob, who are members, and Mallory, who is none."""
    return {name: Identity.at(tmp_path_factory.mktemp(name), name) for name in ("alice", "bob", "mallory")}


class Meeting:
    """Alice's and Bob's ends, Bob's listener, and who was refused by him."""

    def __init__(self, identities: dict[str, Identity], wire: Wire) -> None:
        self.refused: list[str] = []
        members = {name: identities[name].public_key for name in ("alice", "bob")}
        self.alice = Endpoint(identities["alice"], members, wire=wire, on_refused=self.refused.append)
        self.bob = Endpoint(identities["bob"], members, wire=wire, on_refused=self.refused.append)
        self.listener = self.bob.listen(LOOPBACK)
        self.members, self.wire = members, wire

    @contextmanager
    def pair(self, address: str | None = None) -> Iterator[tuple[Connection, Connection]]:
        alice = self.alice.connect("bob", address or self.listener.address, 5)
        with closing(alice), closing(self.listener.accept(5)) as bob:
            yield alice, bob

    def wait_for_refusals(self, count: int = 1) -> str:
        until = monotonic() + 10
        while len(self.refused) < count and monotonic() < until:
            sleep(0.005)
        assert len(self.refused) == count
        return self.refused[-1]


@pytest.fixture
def meet(identities: dict[str, Identity]) -> Iterator[Callable[[Wire], Meeting]]:
    with ExitStack() as stack:

        def make(wire: Wire) -> Meeting:
            meeting = Meeting(identities, wire)
            stack.callback(meeting.listener.close)
            return meeting

        yield make


@pytest.fixture
def meeting(meet: Callable[[Wire], Meeting]) -> Meeting:
    return meet(Wire())


@pytest.fixture(scope="module")
def pairs(identities: dict[str, Identity]) -> Iterator[dict[str, tuple[Connection, Connection]]]:
    """One connected pair for each way to cross."""
    with ExitStack() as stack:
        found = {}
        for name, wire in WIRES.items():
            meeting = Meeting(identities, wire)
            stack.callback(meeting.listener.close)
            found[name] = stack.enter_context(meeting.pair())
        yield found


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Any type and shape, with and without elements, contiguous or not; among the floats there are NaN and -0."""
    dtype = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    values = torch.randint(-3, 4, shape, generator=generator)
    tensor = (values > 0) if dtype is torch.bool else (values.abs() if dtype is torch.uint8 else values).to(dtype)
    if dtype.is_floating_point:
        tensor = tensor / draw(st.sampled_from([1, 3, -7, 0]))
    layout = draw(st.sampled_from(["as it is", "transposed", "every second", "expanded"]))
    if layout == "transposed":
        return tensor.mT if tensor.ndim >= 2 else tensor
    if layout == "every second":
        return tensor[..., ::2] if tensor.ndim else tensor
    return tensor.expand(2, *tensor.shape) if layout == "expanded" else tensor


def same(one: Tensor, other: Tensor) -> bool:
    """Whether they have the same type, shape and values; written out, -0 is not 0, and NaN is NaN."""
    return one.dtype is other.dtype and one.shape == other.shape and repr(one.tolist()) == repr(other.tolist())


@pytest.mark.parametrize("way", WIRES)
@given(sent=st.lists(tensors(), max_size=5), values=st.dictionaries(st.text(), st.floats(allow_nan=False) | st.text()))
def test_a_message_arrives_as_it_was(
    pairs: dict[str, tuple[Connection, Connection]], way: str, sent: list[Tensor], values: dict[str, object]
) -> None:
    alice, bob = pairs[way]
    wire = WIRES[way]
    values = {name: value for name, value in values.items() if value not in (float("inf"), float("-inf"))}
    alice.send(Message("activations", values, tuple(sent)))
    received = bob.receive(5)
    assert (received.kind, received.header) == ("activations", values)
    rounds = wire.dtype == "bfloat16"
    expected = [x.bfloat16().float() if rounds and x.dtype is torch.float32 else x for x in sent]
    assert all(same(one, other) for one, other in zip(expected, received.tensors, strict=True))
    here, there = Digest(wire), Digest(wire)
    here.update(sent)
    there.update(received.tensors)
    assert here.hexdigest() == there.hexdigest()


def test_a_tensor_with_a_gradient_crosses_and_arrives_without(meeting: Meeting) -> None:
    with meeting.pair() as (alice, bob):
        alice.send(Message("activations", {}, (torch.ones(2, requires_grad=True) * 2,)))
        (received,) = bob.receive(5).tensors
    assert not received.requires_grad
    received.add_(1)  # its memory is its own
    assert received.tolist() == [3.0, 3.0]


def test_bytes_are_counted_and_hardly_more_than_the_tensors_own(meeting: Meeting) -> None:
    tensor = torch.randn(256, 1568)
    with meeting.pair() as (alice, bob):
        before = alice.sent_bytes
        with ThreadPoolExecutor() as threads:
            sending = threads.submit(alice.send, Message("activations", {"at": 1}, (tensor,)))
            assert torch.equal(bob.receive(5).tensors[0], tensor)
            sending.result()
        assert alice.sent_bytes == bob.received_bytes
        assert alice.tensor_bytes_sent == bob.tensor_bytes_received == tensor.nbytes == 1_605_632
        assert tensor.nbytes < alice.sent_bytes - before < 1.01 * tensor.nbytes


def test_many_threads_send_both_ways_at_once_and_every_message_arrives_whole(meeting: Meeting) -> None:
    threads_each, messages = 3, 12

    def send(connection: Connection, thread: int) -> None:
        for number in range(messages):
            size = 300_000 if number % 3 == 0 else 7
            connection.send(Message("x", {"thread": thread, "number": number}, (torch.full((size,), float(thread)),)))

    def receive(connection: Connection) -> dict[int, list[int]]:
        seen: dict[int, list[int]] = {thread: [] for thread in range(threads_each)}
        for _ in range(threads_each * messages):
            message = connection.receive(20)
            assert bool((message.tensors[0] == message.header["thread"]).all())
            seen[message.header["thread"]].append(message.header["number"])
        return seen

    with meeting.pair() as both, ThreadPoolExecutor(8) as threads:
        reading = [threads.submit(receive, connection) for connection in both]
        sending = [threads.submit(send, connection, thread) for connection in both for thread in range(threads_each)]
        for done in sending:
            done.result()
        in_order = {thread: list(range(messages)) for thread in range(threads_each)}
        assert [seen.result() for seen in reading] == [in_order, in_order]


def test_a_wait_in_vain_loses_nothing(meeting: Meeting) -> None:
    with meeting.pair() as (alice, bob):
        with pytest.raises(PartyUnavailable, match=r"No message from 'alice'. Nothing came"):
            bob.receive(0.02)
        alice.send(Message("late"))
        assert bob.receive(5).kind == "late"


def test_a_message_that_begins_and_does_not_end_is_given_up(meet: Callable[[Wire], Meeting]) -> None:
    with meet(QUICK).pair() as (alice, bob):
        alice._stream.write([PRELUDE.pack(MAGIC, 100, 0), b"{"], monotonic() + 5)
        with pytest.raises(PartyUnavailable, match="Nothing came"):
            bob.receive(None)
        with pytest.raises(PartyUnavailable):
            bob.receive(None)


def test_one_who_takes_nothing_does_not_block_for_ever(meet: Callable[[Wire], Meeting]) -> None:
    with meet(QUICK).pair() as (alice, _), pytest.raises(PartyUnavailable, match="The other side takes nothing"):
        alice.send(Message("activations", {}, (torch.zeros(30_000_000),)))


def test_closing_wakes_those_who_wait_at_either_end(meeting: Meeting) -> None:
    with meeting.pair() as (alice, bob), ThreadPoolExecutor() as threads:
        waiting = [threads.submit(connection.receive, None) for connection in (alice, bob)]
        sleep(0.05)
        alice.close()
        for one in waiting:
            with pytest.raises(PartyUnavailable, match="closed the connection"):
                one.result(5)
        with pytest.raises(PartyUnavailable, match="could not be sent"):
            alice.send(Message("x"))


def test_what_was_said_before_closing_arrives(meeting: Meeting) -> None:
    with meeting.pair() as (alice, bob):
        alice.send(Message("last words", {}, (torch.ones(10_000),)))
        alice.close()
        assert bob.receive(5).kind == "last words"


def test_a_notice_that_nothing_follows_ends_the_connection_though_the_line_stays_open(meeting: Meeting) -> None:
    """TLS then gives nothing for ever, without a wait: the thread that reads went round and round."""
    with meeting.pair() as (alice, bob):
        with suppress(ssl.SSLWantReadError):
            alice._stream._tls.unwrap()
        alice._stream._flush(monotonic() + 5)
        with pytest.raises(PartyUnavailable, match="closed the connection"):
            bob.receive(5)


def test_a_flood_of_wishes_for_new_keys_ends_the_connection(meeting: Meeting) -> None:
    """OpenSSL answers each wish into memory. Python's TLS cannot wish, so the answers of 40,000 are put there."""
    with meeting.pair() as (alice, bob):
        bob._stream._outgoing.write(bytes(40_000 * 27))
        alice.send(Message("x"))
        with pytest.raises(PartyUnavailable, match="new keys again and again"):
            bob.receive(5)


def test_one_who_breaks_off_within_a_message_is_noticed(meeting: Meeting) -> None:
    with meeting.pair() as (alice, bob):
        whole = b"".join(frame(Message("activations", {}, (torch.ones(100),)), Wire()))
        alice._stream.write([whole[:-1]], monotonic() + 5)
        alice.close()
        with pytest.raises(PartyUnavailable, match="closed the connection"):
            bob.receive(5)


FORGED_BOOL = b'{"header":{},"kind":"x","tensors":[["bool","bool",[1],1,false]]}'


@pytest.mark.parametrize(
    ("written", "says"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "begins with b'GET '", id="another protocol"),
        pytest.param(PRELUDE.pack(MAGIC, 2**31, 0), "header of 2,147,483,648 bytes", id="header"),
        pytest.param(PRELUDE.pack(MAGIC, 2, 2**62), "announces 4,611,686,018,427,387,904 bytes", id="oversized"),
        pytest.param(PRELUDE.pack(MAGIC, 2, 0) + b"{}", "exactly a kind", id="empty"),
        pytest.param(PRELUDE.pack(MAGIC, len(FORGED_BOOL), 1) + FORGED_BOOL + b"\x07", "true and false", id="bool"),
    ],
)
def test_a_forged_frame_of_a_member_is_refused(meeting: Meeting, written: bytes, says: str) -> None:
    with meeting.pair() as (alice, bob):
        alice._stream.write([written], monotonic() + 5)
        with pytest.raises(WireError, match=f"What 'alice' sends is refused.*{says}"):
            bob.receive(5)
        with pytest.raises(PartyUnavailable):
            alice.receive(5)


@contextmanager
def proxy(target: str, change: Callable[[bytes, int], bytes]) -> Iterator[str]:
    """A man in the middle of one connection, who may change what the client sends: `change(bytes, offset)`."""
    host, port = target.rsplit(":", 1)

    def forward(source: socket.socket, sink: socket.socket, change: Callable[[bytes, int], bytes]) -> None:
        offset = 0
        with suppress(OSError):
            while some := source.recv(65536):
                sink.sendall(change(some, offset))
                offset += len(some)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        client, _ = listening.accept()
        with client, socket.create_connection((host, int(port))) as server:
            back = Thread(target=forward, args=(server, client, lambda some, _: some))
            back.start()
            forward(client, server, change)
            back.join()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def test_an_honest_proxy_changes_nothing(meeting: Meeting) -> None:
    with proxy(meeting.listener.address, lambda some, _: some) as address, meeting.pair(address) as (alice, bob):
        alice.send(Message("x", {}, (torch.ones(3),)))
        assert bob.receive(5).tensors[0].tolist() == [1.0] * 3


@pytest.mark.parametrize("where", [5, 20, 700, 2500])
def test_a_bit_that_flips_on_the_way_never_gives_another_message(meeting: Meeting, where: int) -> None:
    armed = Event()

    def flip(some: bytes, offset: int) -> bytes:
        if not armed.is_set() or len(some) <= where:
            return some
        armed.clear()
        return some[:where] + bytes([some[where] ^ 4]) + some[where + 1 :]

    with proxy(meeting.listener.address, flip) as address, meeting.pair(address) as (alice, bob):
        armed.set()
        alice.send(Message("x", {}, (torch.ones(1000),)))
        with pytest.raises(WireError, match=r"What 'alice' sends is refused. What arrived is damaged"):
            bob.receive(5)


def test_bits_that_flip_in_the_handshake_refuse_it(meeting: Meeting) -> None:
    def flip(some: bytes, offset: int) -> bytes:
        return some[:60] + bytes([some[60] ^ 1]) + some[61:] if offset == 0 else some

    with proxy(meeting.listener.address, flip) as address, pytest.raises(PartyUnavailable, match="No connection to"):
        meeting.alice.connect("bob", address, 5)
    with meeting.pair() as (alice, _):
        assert alice.peer == "bob"


def stranger(address: str, context: ssl.SSLContext) -> None:
    """Connect as somebody else, and see whether Bob says anything."""
    host, port = address.rsplit(":", 1)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection((host, int(port)), 5)
    with plain, suppress(OSError), context.wrap_socket(plain) as secured:
        assert secured.recv(1) == b""


def client_of(identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    present_certificate(context, identity)
    return context


def old_client_of(identity: Identity) -> ssl.SSLContext:
    context = client_of(identity)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


STRANGERS = {
    "nobody": "peer did not return a certificate",
    "mallory": "certificate verify failed",
    "mallory as alice": "certificate verify failed",
    "issued by alice for bob": "issued by the key of 'alice' for another name: 'bob', 'bob'",
    "issued by alice a month ago": "certificate verify failed",
    "issued by alice for next month": "certificate verify failed",
    "issued by alice's key of TLS": "certificate verify failed",
    "bob himself": "certificate verify failed",
    "TLS 1.2": "unsupported protocol",
}


@pytest.mark.parametrize("who", STRANGERS)
def test_a_stranger_is_refused_and_told_of(
    meeting: Meeting, identities: dict[str, Identity], tmp_path: Path, who: str
) -> None:
    member = identities["alice"]
    contexts: dict[str, Callable[[], ssl.SSLContext]] = {
        "nobody": lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        "mallory": lambda: client_of(identities["mallory"]),
        "mallory as alice": lambda: client_of(Identity.at(tmp_path / "forged", "alice")),
        "issued by alice for bob": lambda: issued_by(member, "bob", tmp_path),
        "issued by alice a month ago": lambda: issued_by(member, "alice", tmp_path, days_ago=30),
        "issued by alice for next month": lambda: issued_by(member, "alice", tmp_path, days_ago=-30),
        "issued by alice's key of TLS": lambda: issued_by_tls_key(member, tmp_path),
        "bob himself": lambda: client_of(identities["bob"]),
        "TLS 1.2": lambda: old_client_of(member),
    }
    stranger(meeting.listener.address, contexts[who]())
    refusal = meeting.wait_for_refusals()
    assert "was refused. The" in refusal
    assert STRANGERS[who] in refusal
    with meeting.pair() as (alice, bob):
        assert (alice.peer, bob.peer) == ("bob", "alice")


def client_with(key: Ed25519PrivateKey, certificates: bytes, folder: Path) -> ssl.SSLContext:
    """Somebody with this key and these certificates (PEM)."""
    context, file = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), folder / "client.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificates)
    context.load_cert_chain(file)
    return context


def issued_by(issuer: Identity, name: str, folder: Path, *, days_ago: int = 0) -> ssl.SSLContext:
    """A certificate in the name of `name` that the issuer's key has signed."""
    key = Ed25519PrivateKey.generate()
    of, then = replace(issuer, name=name), datetime.now(UTC) - timedelta(days=days_ago)
    certificate = issue_certificate(of, key.public_key().public_bytes_raw().hex(), now=then)
    return client_with(key, certificate.public_bytes(Encoding.PEM), folder)


def issued_by_tls_key(issuer: Identity, folder: Path) -> ssl.SSLContext:
    """A certificate in Alice's name that a key of TLS has signed, for which Alice's key vouches."""
    stolen, key = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    vouched = issue_certificate(issuer, stolen.public_key().public_bytes_raw().hex())
    thief = replace(issuer, signer=Signer(stolen))
    certificate = issue_certificate(thief, key.public_key().public_bytes_raw().hex())
    chain = certificate.public_bytes(Encoding.PEM) + vouched.public_bytes(Encoding.PEM)
    return client_with(key, chain, folder)


def test_one_who_speaks_no_tls_is_refused(meeting: Meeting) -> None:
    host, port = meeting.listener.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 5) as plain, suppress(ConnectionError):
        plain.sendall(b"GET / HTTP/1.1\r\nHost: bob\r\n\r\n")
        while plain.recv(1000):
            pass
    assert "The TLS handshake failed: http request" in meeting.wait_for_refusals()


def test_dawdlers_hold_nobody_up_and_are_refused_in_the_end(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE", 0.5)
    host, port = meeting.listener.address.rsplit(":", 1)
    with ExitStack() as stack:
        for _ in range(5):
            slow = stack.enter_context(socket.create_connection((host, int(port)), 5))
            slow.sendall(b"\x16\x03\x01")  # the beginning of a handshake
        with meeting.pair() as (alice, bob):
            alice.send(Message("x"))
            assert bob.receive(5).kind == "x"
        assert "Nothing came" in meeting.wait_for_refusals(5)


def test_of_too_many_dawdlers_the_first_are_pushed_out(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MOST_HANDSHAKES", 3)
    host, port = meeting.listener.address.rsplit(":", 1)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection((host, int(port)), 5))
        with meeting.pair() as (alice, _):
            assert alice.peer == "bob"
        assert "closed the connection" in meeting.wait_for_refusals(1)


def test_one_who_answers_in_another_name_is_refused(identities: dict[str, Identity]) -> None:
    refused: list[str] = []
    members = {name: identity.public_key for name, identity in identities.items()}
    alice = Endpoint(identities["alice"], members, wire=Wire(), on_refused=refused.append)
    impostor = Endpoint(identities["mallory"], members, wire=Wire(), on_refused=lambda _: None)
    with closing(impostor.listen(LOOPBACK)) as there, pytest.raises(WireError, match="certificate verify failed"):
        alice.connect("bob", there.address, 5)
    assert "'bob'" in refused[0]


def test_one_whom_the_other_side_refuses_learns_it_at_once(identities: dict[str, Identity], meeting: Meeting) -> None:
    mallory = Endpoint(identities["mallory"], meeting.members, wire=Wire(), on_refused=lambda _: None)
    with pytest.raises(WireError, match=r"No connection to 'bob' at .*alert"):
        mallory.connect("bob", meeting.listener.address, 5)


def test_nobody_at_the_address_is_said_so(meeting: Meeting) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(PartyUnavailable, match=r"No connection to 'bob' at .* Nothing came"):
            meeting.alice.connect("bob", address, 0.1)
    with pytest.raises(PartyUnavailable, match="'bob' cannot be reached at 127"):
        meeting.alice.connect("bob", address, 5)
    with pytest.raises(GovernError, match=r"'carol' is not a member. The members: bob"):
        meeting.alice.connect("carol", address, 5)
    with pytest.raises(InputError, match="An address is 'host:port'"):
        meeting.alice.connect("bob", "nowhere", 5)


def test_a_listener_can_be_closed_while_others_wait_on_it(meeting: Meeting) -> None:
    address = meeting.listener.address
    alice = meeting.alice.connect("bob", address, 5)
    meeting.listener.close()  # nobody had accepted her
    with closing(alice), pytest.raises(PartyUnavailable, match=r"closed the connection|broke"):
        alice.receive(5)
    with pytest.raises(PartyUnavailable, match="is closed"):
        meeting.listener.accept()
    with pytest.raises(PartyUnavailable, match="cannot be reached"):
        meeting.alice.connect("bob", address, 5)
    with closing(meeting.bob.listen(address)) as again, ThreadPoolExecutor() as threads:
        with pytest.raises(PartyUnavailable, match="in time"):
            again.accept(0.01)
        waiting = threads.submit(partial(Listener.accept, again))
        again.close()
        with pytest.raises(PartyUnavailable, match="is closed"):
            waiting.result(5)
