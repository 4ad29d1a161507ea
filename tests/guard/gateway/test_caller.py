"""The caller, on the gateway's own loop, against real sockets that behave, end, dawdle and talk nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from modelkeep.guard.gateway.caller import Caller, NotReached, Reply

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\n"


async def told(reader: asyncio.StreamReader) -> bytes:
    """One request, with its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))


def calls(talk: Talk, times: int = 1, **settings: float) -> tuple[list[Reply], int]:
    """The replies to some requests in a row, and how many connections they took."""
    made = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal made
        made += 1
        try:
            await talk(reader, writer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def all_of_it() -> list[Reply]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        caller = Caller(
            f"http://127.0.0.1:{port}/base/",
            timeout=settings.get("timeout", 5.0),
            connections=2,
            most=int(settings.get("most", 1 << 16)),
        )
        try:
            return [await caller.ask("POST", "/v2", b"question", {"X-Kind": "test"}) for _ in range(times)]
        finally:
            await caller.close()
            server.close()

    return uvloop.run(all_of_it()), made


def test_requests_go_out_whole_and_share_a_connection() -> None:
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked.append(await told(reader))
            writer.write(HEAD + b"X-Name: Value\r\nContent-Length: 4\r\n\r\ngood")

    replies, made = calls(talk, times=3)
    assert [reply.content for reply in replies] == [b"good"] * 3
    assert replies[0].status == 200
    assert replies[0].headers[b"x-name"] == b"Value"
    assert made == 1
    assert asked[0].startswith(b"POST /base/v2 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"X-Kind: test\r\n" in asked[0]
    assert asked[0].endswith(b"\r\n\r\nquestion")


def test_chunks_and_many_small_parts_are_put_together() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await told(reader)
        for byte in HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n":
            writer.write(bytes([byte]))
            await writer.drain()

    (reply,), _ = calls(talk)
    assert reply.content == b"abcde"


def test_a_connection_that_ended_while_idle_is_replaced() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await told(reader)
        writer.write(HEAD + b"Content-Length: 1\r\n\r\nx")  # and then it ends, without a word

    replies, made = calls(talk, times=3)
    assert len(replies) == made == 3


def test_a_server_that_says_close_is_not_asked_again_there() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await told(reader)
        writer.write(HEAD + b"Connection: close\r\nContent-Length: 1\r\n\r\nx")
        await asyncio.sleep(0.2)

    assert calls(talk, times=2)[1] == 2


@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Len", HEAD + b"Content-Length: 100\r\n\r\nshort", b"SSH-2.0-OpenSSH\r\n\r\n"],
    ids=["nothing", "half a head", "half a body", "no http"],
)
def test_what_is_no_answer_is_not_reached(said: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await told(reader)
        writer.write(said)

    with pytest.raises(NotReached):
        calls(talk)


def test_a_server_that_drips_is_given_up_in_time() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 1000\r\n\r\n")
        for _ in range(100):
            writer.write(b"x")
            await asyncio.sleep(0.05)

    with pytest.raises(NotReached, match="TimeoutError"):
        calls(talk, timeout=0.3)


def test_an_answer_without_end_is_cut_off() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await told(reader)
        writer.write(HEAD + b"Content-Length: 10000000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 10_000)
            await asyncio.wait_for(writer.drain(), 5)

    with pytest.raises(NotReached, match="more than 65536 bytes"):
        calls(talk)


def test_a_server_that_is_not_there() -> None:
    caller = Caller("http://127.0.0.1:9", timeout=2.0, connections=1, most=1000)

    async def ask() -> Reply:
        return await caller.ask("GET", "/")

    with pytest.raises(NotReached):
        uvloop.run(ask())
