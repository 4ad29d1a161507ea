"""The body of a request over REST: never more of it in memory than is allowed, plain or compressed by gzip."""

from __future__ import annotations

import asyncio
import zlib

from starlette.requests import ClientDisconnect, Request

from modelkeep.guard.refusals import Malformed, TooLarge, UnknownEncoding

SMALL = 1 << 16  # bytes that are read faster than another thread could be asked
_GZIP = 16 + zlib.MAX_WBITS  # zlib's way to say that a gzip header comes first


async def read_body(request: Request, most: int) -> bytes:
    """The body, of which never more than `most` bytes (and one chunk) are in memory, also where it is compressed."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise UnknownEncoding(f"The body's Content-Encoding must be gzip, or left out. Got {encoding[:60]!r}.")
    told = request.headers.get("content-length", "")
    parts, size = [], int(told) if told.isdecimal() and len(told) < 20 else 0
    if size <= most:
        size = 0
        try:
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > most:
                    break
        except ClientDisconnect:
            raise Malformed("The request ended before its body did.") from None
    if size > most:
        raise TooLarge(f"A request may have at most {most} bytes.")
    body = b"".join(parts)
    return body if encoding == "identity" else await asyncio.to_thread(decompress, body, most)


def decompress(body: bytes, most: int) -> bytes:
    """What a gzip file holds, if that is at most `most` bytes; no more of it is ever made.

    >>> import gzip
    >>> decompress(gzip.compress(b"{}"), 10)
    b'{}'
    """
    reader = zlib.decompressobj(_GZIP)
    try:
        plain = reader.decompress(body, most + 1)
    except zlib.error as error:
        raise Malformed(f"The body is not what gzip makes: {error}.") from None
    if len(plain) > most:
        raise TooLarge(f"A request may have at most {most} bytes, and this one has more when it is decompressed.")
    if not reader.eof or reader.unused_data:
        raise Malformed("The body is cut off, or more follows what gzip made.")
    return plain


def check_json_size(body: bytes, header_length: str | None, most: int) -> None:
    """Refuse JSON of more than `most` bytes: while it is read, no other request is. Binary data are not counted."""
    size = int(header_length) if header_length is not None and header_length.isdecimal() else len(body)
    if min(size, len(body)) > most:
        raise TooLarge(
            f"The JSON of a request may have at most {most} bytes, and binary tensor data behind it more. Send the "
            "tensors as binary data, or fewer rows at a time."
        )
