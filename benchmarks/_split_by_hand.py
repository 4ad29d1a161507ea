"""The peer of `govern`: a network split between two processes by hand, over gRPC with mutual TLS and nothing else."""

from __future__ import annotations

import datetime
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from modelkeep import Data

LARGE: list[tuple[str, Any]] = [
    ("grpc.max_send_message_length", 1 << 28),
    ("grpc.max_receive_message_length", 1 << 28),
    ("grpc.http2.max_frame_size", (1 << 24) - 1),
    ("grpc.http2.lookahead_bytes", 1 << 24),
    ("grpc.http2.write_buffer_size", 1 << 24),
]


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
def by_grpc(data: Data, batch: int, rate: float, momentum: float) -> Iterator[Callable[[], None]]:
    """A step, the second half of it in another process."""
    import grpc

    key, certificate = _certificate()
    context = multiprocessing.get_context("spawn")
    ports = context.SimpleQueue()
    other = context.Process(target=_serve, args=(ports, key, certificate, data.y, batch, rate, momentum), daemon=True)
    other.start()
    channel = grpc.secure_channel(
        f"localhost:{ports.get()}", grpc.ssl_channel_credentials(certificate, key, certificate), options=LARGE
    )
    outgoing: SimpleQueue[bytes | None] = SimpleQueue()
    incoming: Any = channel.stream_stream("/split/step", None, None)(iter(outgoing.get, None))
    first = cut_by_hand()[0].train()
    optimizer = torch.optim.SGD(first.parameters(), lr=rate, momentum=momentum)
    order = cycle(torch.split(_order(len(data)), batch))

    def step() -> None:
        optimizer.zero_grad()
        z = first(data.x.index_select(0, next(order)))
        outgoing.put(z.detach().numpy().tobytes())
        gradient = torch.from_numpy(np.frombuffer(next(incoming), np.float32).copy()).view_as(z)
        torch.autograd.backward(z, gradient)
        optimizer.step()

    try:
        yield step
    finally:
        outgoing.put(None)
        channel.close()
        other.kill()
        other.join()


def _order(n: int) -> torch.Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))


def _serve(
    ports: Any, key: bytes, certificate: bytes, y: torch.Tensor, batch: int, rate: float, momentum: float
) -> None:
    import grpc

    torch.set_num_threads(1)
    if (os.cpu_count() or 1) >= 2:
        os.sched_setaffinity(0, {1})  # a core of its own
    second = cut_by_hand()[1].train()
    optimizer = torch.optim.SGD(second.parameters(), lr=rate, momentum=momentum)
    order = torch.split(_order(len(y)), batch)

    def step(messages: Iterator[bytes], _: Any) -> Iterator[bytes]:
        for number, message in enumerate(messages):
            optimizer.zero_grad()
            z = torch.from_numpy(np.frombuffer(message, np.float32).copy()).view(batch, 16, 14, 14).requires_grad_()
            torch.autograd.backward(cross_entropy(second(z), y.index_select(0, order[number % len(order)])))
            assert z.grad is not None
            yield z.grad.numpy().tobytes()
            optimizer.step()

    server = grpc.server(ThreadPoolExecutor(2), options=LARGE)
    handler = grpc.stream_stream_rpc_method_handler(step)
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
