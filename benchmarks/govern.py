"""What a step costs when two parties hold the network, with consent, ledgers and mutual TLS, one thread each.

Floor: the same step by hand in one process with one thread, and the same split by hand over plain sockets: what
governance itself costs is ours over that one, and what of it is encryption is the same over TLS sockets. Peer: the same
split by hand over gRPC with mutual TLS, the usual choice. No split by hand has consents, digests, ledgers or checks.
All take turns in one run, each process on a core of its own, and the median step counts. `wire_share_of_step` is the
time from handing a message over to be sent until the other process has its tensors, summed over a step (the clock is
the machine's). The paper quotes more than 1000 times for homomorphic encryption and more than 24 for multi-party
computation.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from _measure import arguments, report
from _split_by_hand import Training, cut_by_hand, split_by_hand
from modelkeep import Data, Model
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.draft import draft
from modelkeep.govern.agreement.terms import Material
from modelkeep.govern.folder import Folder
from modelkeep.govern.identity import Identity
from modelkeep.govern.piece.files import split
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.memory import keep_freed_memory
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.runs import training_passes
from modelkeep.govern.session.service import serve
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.message import Message
from modelkeep.training import SGD, Recipe

BATCH, RATE, MOMENTUM, PARTS = 128, 0.01, 0.9, 4
TURNS, WARMING, STEPS = 20, 2, 10
HERE = Path(__file__).parent
Step = Callable[[], object]


def on_core(*cores: int) -> None:
    """Give this process a core of its own, where there are two: the scheduler likes to wake who got a message beside
    who sent it, on the same core."""
    if (os.cpu_count() or 1) >= 2 and hasattr(os, "sched_setaffinity"):
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), cores)


def network() -> nn.Module:
    """Conv-conv-fc-fc; after the first block 16 × 14 × 14 numbers per picture cross, 1.6 MB per batch."""
    return cut_by_hand()[0].extend(cut_by_hand()[1])


def pictures(seed: int) -> Data:
    """Noise of MNIST's shape: what is in a picture does not change the time."""
    draw = torch.Generator().manual_seed(seed)
    x, y = torch.rand(10 * BATCH, 1, 28, 28, generator=draw), torch.randint(0, 10, (10 * BATCH,), generator=draw)
    return Data(x, y, tuple("0123456789"))


def one_process(data: Data, threads: int) -> Step:
    """A step by hand."""
    module = network().train()
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
    order = cycle(torch.split(torch.randperm(len(data), generator=torch.Generator().manual_seed(0)), BATCH))

    def step() -> None:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
            on_core(*range(threads))
        rows = next(order)
        optimizer.zero_grad()
        loss = cross_entropy(module(data.x.index_select(0, rows)), data.y.index_select(0, rows))
        torch.autograd.backward(loss)
        optimizer.step()

    return step


def median_steps(rivals: dict[str, Step]) -> dict[str, float]:
    """Median seconds of a step; the rivals take turns of some steps, and the first ones of a turn warm it up."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(TURNS):
        for name, step in rivals.items():
            torch.set_num_threads(1)
            on_core(0)
            for number in range(WARMING + STEPS):
                start = perf_counter()
                step()
                if number >= WARMING:
                    times[name].append(perf_counter() - start)
    return {name: median(taken) for name, taken in times.items()}


class Watch:
    """EventLog when messages with tensors are handed over and when they have arrived, in both processes."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        send, receive = Connection.send, Connection.receive

        def watched_send(connection: Connection, message: Message) -> None:
            if message.tensors:
                message = Message(message.kind, {**message.header, "at": perf_counter()}, message.tensors)
            send(connection, message)

        def watched_receive(connection: Connection, timeout: float | None = None) -> Message:
            message = receive(connection, timeout)
            if message.tensors:
                self.seconds.append(perf_counter() - message.header["at"])
            return message

        Connection.send = watched_send  # type: ignore[assignment, method-assign]
        Connection.receive = watched_receive  # type: ignore[assignment, method-assign]


@contextmanager
def governed(root: Path, data: Data, seed: int, parts: int) -> Iterator[tuple[Leader, Callable[[], float]]]:
    """Alice leads in this process, Bob serves in another. The second value ends Bob and tells of his waits."""
    root.mkdir()
    data_file = root / "data.pt"
    torch.save({"x": data.x, "y": data.y}, data_file)
    names = ("alice", "bob")
    identities = {name: Identity.at(root / name, name) for name in names}
    model = Model.load("govern:network", like=data)
    agreement: Agreement = draft(
        "benchmark",
        model,
        parties=[identity.public for identity in identities.values()],
        addresses={name: f"127.0.0.1:{port}" for name, port in zip(names, _free_ports(), strict=True)},
        cuts=["2"],
        holders=names,
        data=Material.inputs("alice", data),
        labels=Material.labels("bob", data),
        recipe=Recipe(
            steps=10**6, batch_size=BATCH, optimizer=SGD(momentum=MOMENTUM), learning_rate=RATE, micro_batches=parts
        ),
        seed=seed,
        checkpoint_every=10**6,
    )
    for identity in identities.values():
        agreement = agreement.sign(identity)
    folders = {name: Folder(root / name) for name in names}
    for folder in folders.values():
        agreement.write(folder.agreement)
    split(model, agreement, folders)
    told = root / "bob.json"
    bob = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(folders["bob"].path), str(data_file), str(told)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
    )
    assert bob.stdout is not None
    bob.stdout.readline()

    def waits() -> float:
        bob.send_signal(signal.SIGTERM)
        bob.wait(60)
        return median(map(float, told.read_text().split()))

    try:
        with Party(folders["alice"], data=[data]) as party:
            leader = Leader(party)
            leader.meet()
            yield leader, waits
    finally:
        bob.kill()
        bob.wait()
        bob.stdout.close()


def step_of(leader: Leader) -> Step:
    """A step that the leader leads."""
    make = training_passes(leader.party)
    return lambda: leader.run("train", make)


def serve_bob(folder: str, data_file: str, told: str) -> None:
    """Bob's process."""
    torch.set_num_threads(1)
    keep_freed_memory()
    on_core(1)
    watch = Watch()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    tensors = torch.load(data_file, weights_only=True)
    with Party(Folder(Path(folder)), data=[Data(tensors["x"], tensors["y"], tuple("0123456789"))]) as party:
        print("ready", flush=True)
        serve(party, stop)
    Path(told).write_text(" ".join(map(str, watch.seconds)))


def _free_ports() -> tuple[int, int]:
    import socket

    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def main() -> None:
    """Measure and report."""
    if sys.argv[1:2] == ["--serve"]:
        return serve_bob(*sys.argv[2:5])
    chosen = arguments(__doc__ or "").parse_args()
    sys.path.insert(0, str(HERE))
    torch.set_num_threads(1)
    on_core(0)
    keep_freed_memory()  # as `modelkeep govern` does; the floor, in this process too, has the good of it
    torch.manual_seed(chosen.seed)
    data = pictures(chosen.seed)
    watch = Watch()
    with tempfile.TemporaryDirectory() as root, ExitStack() as stack:
        leader, bob_waits = stack.enter_context(governed(Path(root) / "whole", data, chosen.seed, 1))
        pipelined, _ = stack.enter_context(governed(Path(root) / "parts", data, chosen.seed, PARTS))
        whole, in_parts = (Training(BATCH, parts, RATE, MOMENTUM) for parts in (1, PARTS))
        rivals: dict[str, Step] = {
            "one process": one_process(data, 1),
            "split": step_of(leader),
            "bare": stack.enter_context(split_by_hand("bare", data, whole)),
            "tls": stack.enter_context(split_by_hand("tls", data, whole)),
            "grpc": stack.enter_context(split_by_hand("grpc", data, whole)),
            "two threads": one_process(data, 2),
            "pipelined": step_of(pipelined),
            "bare, pipelined": stack.enter_context(split_by_hand("bare", data, in_parts)),
            "tls, pipelined": stack.enter_context(split_by_hand("tls", data, in_parts)),
            "grpc, pipelined": stack.enter_context(split_by_hand("grpc", data, in_parts)),
        }
        seconds = median_steps(rivals)
        link = leader.party.links.connection_to("bob")
        assert link is not None
        tensors = link.tensor_bytes_sent + link.tensor_bytes_received
        wire_bytes = (link.sent_bytes + link.received_bytes) / tensors
        watch.seconds.clear()
        for _ in range(30):
            rivals["split"]()
        gradients = median(watch.seconds)
        leader.close()
        activations = bob_waits()
    one = seconds["one process"]
    report(
        {
            "step_over_one_process": seconds["split"] / one,
            "pipelined_over_one_thread": seconds["pipelined"] / one,
            "wire_share_of_step": (activations + gradients) / seconds["split"],
            "wire_bytes_over_tensor_bytes": wire_bytes,
            "one_process_ms": 1e3 * one,
            "two_threads_over_one": seconds["two threads"] / one,
            "activations_ms": 1e3 * activations,
            "gradients_ms": 1e3 * gradients,
            "governance_over_bare_split": seconds["split"] / seconds["bare"],
            "governance_over_bare_split_pipelined": seconds["pipelined"] / seconds["bare, pipelined"],
            "tls_split_over_bare_split": seconds["tls"] / seconds["bare"],
            "tls_split_over_bare_split_pipelined": seconds["tls, pipelined"] / seconds["bare, pipelined"],
            "bare_split_over_one_process": seconds["bare"] / one,
            "bare_split_pipelined_over_one_thread": seconds["bare, pipelined"] / one,
            "peer_grpc_by_hand_over_one_process": seconds["grpc"] / one,
            "peer_grpc_by_hand_pipelined_over_one_thread": seconds["grpc, pipelined"] / one,
            "paper, quoted: homomorphic encryption, at least": 1000,
            "paper, quoted: multi-party computation, at least": 24,
        },
        chosen.json,
    )
    return None


if __name__ == "__main__":
    main()
