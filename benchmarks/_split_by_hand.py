"""The peers of `govern`: a network split between two processes by hand, without consents, digests, ledgers or checks.

`bare` sends the tensors' bytes over plain sockets: the floor of any split. `tls` does so over the TLS sockets of the
standard library, both sides with certificates: the floor of any split that others may not read. `grpc` sends them over
gRPC with mutual TLS, the usual choice. All take the step in micro-batches where they are told to, as the governed one
does.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from modelkeep import Data

_BUFFER = 4 << 20  # bytes of a socket's buffer: a batch fits, so sending does not wait for the other side
_LARGE: list[tuple[str, Any]] = [
    ("grpc.max_send_message_length", 1 << 28),
    ("grpc.max_receive_message_length", 1 << 28),
    ("grpc.http2.max_frame_size", (1 << 24) - 1),
    ("grpc.http2.lookahead_bytes", 1 << 24),
    ("grpc.http2.write_buffer_size", 1 << 24),
]

Send = Callable[[Tensor], None]
Receive = Callable[[], Tensor]
Connect = Callable[..., AbstractContextManager[tuple[Send, Receive]]]


@dataclass(frozen=True)
class Training:
    """What both processes train by."""

    batch: int
    parts: int
    rate: float
    momentum: float

    @property
    def shape(self) -> tuple[int, ...]:
        """What crosses in one micro-batch."""
        return (self.batch // self.parts, 16, 14, 14)

    def optimizer(self, module: nn.Module) -> torch.optim.Optimizer:
        """The optimizer of one half."""
        return torch.optim.SGD(module.parameters(), lr=self.rate, momentum=self.momentum)

    def rows(self, n: int) -> Iterator[tuple[Tensor, ...]]:
        """The rows of each step, by micro-batch, for ever."""
        order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
        part = self.batch // self.parts
        return cycle([torch.split(batch, part) for batch in torch.split(order, self.batch)])


def cut_by_hand() -> tuple[nn.Sequential, nn.Sequential]:
    """The two halves of the network."""
    first = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    second = nn.Sequential(
        nn.Conv2d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 49, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    return first, second


@contextmanager
def split_by_hand(kind: Literal["bare", "tls", "grpc"], data: Data, training: Training) -> Iterator[Callable[[], None]]:
    """A step, the second half of it in another process."""
    context = multiprocessing.get_context("spawn")
    ports = context.SimpleQueue()
    key, certificate = _certificate()
    serve = {"bare": _serve_bare, "tls": _serve_tls, "grpc": _serve_grpc}[kind]
    ways: dict[str, Connect] = {"bare": _connect_bare, "tls": _connect_tls, "grpc": _connect_grpc}
    connect = ways[kind]
    other = context.Process(target=serve, args=(ports, data.y, training, key, certificate), daemon=True)
    other.start()
    try:
        with connect(ports.get(), training, key, certificate) as (send, receive):
            yield _first_half(data.x, training, send, receive)
    finally:
        other.kill()
        other.join()


def _first_half(x: Tensor, training: Training, send: Send, receive: Receive) -> Callable[[], None]:
    first = cut_by_hand()[0].train()
    optimizer = training.optimizer(first)
    batches = training.rows(len(x))

    def step() -> None:
        optimizer.zero_grad()
        left = []
        for rows in next(batches):
            left.append(first(x.index_select(0, rows)))
            send(left[-1].detach())
        for z in left:
            torch.autograd.backward(z, receive())
        optimizer.step()

    return step


def _second_half(y: Tensor, training: Training) -> Callable[[Receive], Iterator[Tensor]]:
    """A step that gives the gradients, one micro-batch after the other, and updates its weights after the last."""
    torch.set_num_threads(1)
    if (os.cpu_count() or 1) >= 2:
        os.sched_setaffinity(0, {1})  # a core of its own
    second = cut_by_hand()[1].train()
    optimizer = training.optimizer(second)
    batches = training.rows(len(y))

    def step(receive: Receive) -> Iterator[Tensor]:
        optimizer.zero_grad()
        for rows in next(batches):
            z = receive().requires_grad_()
            torch.autograd.backward(cross_entropy(second(z), y.index_select(0, rows)) / training.parts)
            assert z.grad is not None
            yield z.grad
        optimizer.step()

    return step


def _to_bytes(tensor: Tensor) -> Any:
    return tensor.contiguous().numpy().data.cast("B")


def _on_socket(line: socket.socket, shape: tuple[int, ...]) -> tuple[Send, Receive]:
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        line.setsockopt(socket.SOL_SOCKET, buffer, _BUFFER)

    def receive() -> Tensor:
        tensor = torch.empty(shape)
        rest = memoryview(_to_bytes(tensor))
        while rest:
            came = line.recv_into(rest)
            if not came:
                raise EOFError
            rest = rest[came:]
        return tensor

    return lambda tensor: line.sendall(_to_bytes(tensor)), receive


@contextmanager
def _connect_bare(port: int, training: Training, *_: bytes) -> Iterator[tuple[Send, Receive]]:
    with socket.create_connection(("127.0.0.1", port)) as line:
        yield _on_socket(line, training.shape)


def _serve_bare(ports: Any, y: Tensor, training: Training, *how: Any) -> None:
    step = _second_half(y, training)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ports.put(listener.getsockname()[1])
        line, _address = listener.accept()
        if how and isinstance(how[0], ssl.SSLContext):
            line = how[0].wrap_socket(line, server_side=True)
        with line:
            send, receive = _on_socket(line, training.shape)
            while True:
                for gradient in step(receive):
                    send(gradient)


def _context(protocol: int, key: bytes, certificate: bytes) -> ssl.SSLContext:
    """TLS 1.3 in which both sides show the one certificate."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "both.pem"
        file.write_bytes(key + certificate)
        context.load_cert_chain(file)
        context.load_verify_locations(file)
    return context


@contextmanager
def _connect_tls(port: int, training: Training, key: bytes, certificate: bytes) -> Iterator[tuple[Send, Receive]]:
    context = _context(ssl.PROTOCOL_TLS_CLIENT, key, certificate)
    with socket.create_connection(("127.0.0.1", port)) as line, context.wrap_socket(line) as secret:
        yield _on_socket(secret, training.shape)


def _serve_tls(ports: Any, y: Tensor, training: Training, key: bytes, certificate: bytes) -> None:
    _serve_bare(ports, y, training, _context(ssl.PROTOCOL_TLS_SERVER, key, certificate))


@contextmanager
def _connect_grpc(port: int, training: Training, key: bytes, certificate: bytes) -> Iterator[tuple[Send, Receive]]:
    import grpc

    credentials = grpc.ssl_channel_credentials(certificate, key, certificate)
    channel = grpc.secure_channel(f"localhost:{port}", credentials, options=_LARGE)
    outgoing: SimpleQueue[bytes | None] = SimpleQueue()
    incoming: Any = channel.stream_stream("/split/step", None, None)(iter(outgoing.get, None))
    try:
        yield lambda tensor: outgoing.put(bytes(_to_bytes(tensor))), lambda: _from_bytes(next(incoming), training)
    finally:
        outgoing.put(None)
        channel.close()


def _from_bytes(message: bytes, training: Training) -> Tensor:
    return torch.from_numpy(np.frombuffer(message, np.float32).copy()).view(training.shape)


def _serve_grpc(ports: Any, y: Tensor, training: Training, key: bytes, certificate: bytes) -> None:
    import grpc

    step = _second_half(y, training)

    def answer(messages: Iterator[bytes], _: Any) -> Iterator[bytes]:
        while True:
            yield from (bytes(_to_bytes(each)) for each in step(lambda: _from_bytes(next(messages), training)))

    server = grpc.server(ThreadPoolExecutor(2), options=_LARGE)
    handler = grpc.stream_stream_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("split", {"step": handler}),))
    credentials = grpc.ssl_server_credentials([(key, certificate)], certificate, require_client_auth=True)
    ports.put(server.add_secure_port("127.0.0.1:0", credentials))
    server.start()
    server.wait_for_termination()


def _certificate() -> tuple[bytes, bytes]:
    """An elliptic-curve key and its certificate: gRPC's TLS does not take the Ed25519 keys of parties."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private, certificate.public_bytes(Encoding.PEM)
