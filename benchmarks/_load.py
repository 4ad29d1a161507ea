"""Load on a gateway: prepared requests over kept-open sockets, at a steady rate or as fast as they are answered.

By hand, because httpx takes longer for a request than the gateway does, and would be what is measured.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray


def request(x: NDArray[np.float32], model: str, name: str, *, binary: bool) -> bytes:
    """One HTTP request that asks about the rows of `x`."""
    tensor: dict[str, object] = {"name": name, "datatype": "FP32", "shape": list(x.shape)}
    data = b""
    if binary:
        data = x.tobytes()
        tensor["parameters"] = {"binary_data_size": len(data)}
    else:
        tensor["data"] = x.ravel().tolist()
    asked: dict[str, object] = {"inputs": [tensor]}
    if binary:
        asked["parameters"] = {"binary_data_output": True}
    header = json.dumps(asked).encode()
    lines = [f"POST /v2/models/{model}/infer HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"Inference-Header-Content-Length: {len(header)}"] if binary else []
    lines += [f"Content-Length: {len(header) + len(data)}", "", ""]
    return "\r\n".join(lines).encode() + header + data


class Connection:
    """One kept-open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, content: bytes) -> float:
        """Seconds until the whole answer was there; anything but an answer is an error."""
        start = perf_counter()
        self.writer.write(content)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(f"No answer: {head[:200]!r}")
        length = int(head.split(b"\r\ncontent-length:")[1].split(b"\r\n")[0])
        await self.reader.readexactly(length)
        return perf_counter() - start


async def steady(
    port: int, requests: Sequence[bytes], rate: float, seconds: float, connections: int = 8
) -> list[float]:
    """Latencies at `rate` requests per second, sent when they are due whether or not the earlier ones are answered."""
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(connections):
        idle.put_nowait(await Connection.to(port))
    taken: list[float] = []

    async def one(content: bytes, due: float) -> None:
        connection = await idle.get()
        await connection.ask(content)
        taken.append(perf_counter() - due)  # waiting for a connection is the gateway's doing, so it counts
        idle.put_nowait(connection)

    start = perf_counter()
    tasks = []
    for number in range(int(rate * seconds)):
        due = start + number / rate
        if (wait := due - perf_counter()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(requests[number % len(requests)], max(due, perf_counter() - 1e-4))))
    await asyncio.gather(*tasks)
    await _close(idle)
    return taken


async def flat_out(port: int, requests: Sequence[bytes], seconds: float, connections: int = 8) -> float:
    """Requests per second when each connection asks again as soon as it is answered."""
    answered = 0
    end = perf_counter() + seconds

    async def one(offset: int) -> None:
        nonlocal answered
        connection = await Connection.to(port)
        number = offset
        while perf_counter() < end:
            await connection.ask(requests[number % len(requests)])
            number += 1
            answered += 1
        connection.writer.close()

    start = perf_counter()
    await asyncio.gather(*(one(101 * offset) for offset in range(connections)))
    return answered / (perf_counter() - start)


async def _close(idle: asyncio.Queue[Connection]) -> None:
    while not idle.empty():
        idle.get_nowait().writer.close()
