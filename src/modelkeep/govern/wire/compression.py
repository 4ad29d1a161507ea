"""Compression: zstd on the bytes of a tensor, sorted by significance; lossless, and only where it helps.

The first bytes of floating-point numbers (sign and exponent) are alike, the last ones are noise: all first bytes
together, then all second bytes and so on, compress better than number by number.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from modelkeep.core.errors import MissingExtra, WireError

_LEVEL = 1
_LARGEST_WINDOW = 8 * 2**20  # what a decompressor may allocate, whatever the frame asks for; level 1 uses far less


def pack(content: memoryview, itemsize: int) -> bytes | None:
    """The compressed bytes, or none where they would not be fewer.

    >>> len(pack(memoryview(bytes(4000)), itemsize=4)) < 40
    True
    >>> pack(memoryview(b"abcd"), itemsize=4) is None
    True
    """
    by_significance = np.ascontiguousarray(np.frombuffer(content, np.uint8).reshape(-1, itemsize).T)
    packed: bytes = _zstandard().ZstdCompressor(level=_LEVEL).compress(by_significance.data)
    return packed if len(packed) < len(content) else None


def unpack(packed: memoryview, content: memoryview, itemsize: int) -> None:
    """Fill `content` with what was packed, which must be exactly that many bytes: no frame can ask for more memory."""
    zstandard = _zstandard()
    by_significance = np.empty((itemsize, len(content) // itemsize), np.uint8)
    place = by_significance.reshape(-1).data
    try:
        with zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).stream_reader(packed) as reader:
            filled = 0
            while filled < len(place) and (more := reader.readinto(place[filled:])):
                filled += more
            complete = filled == len(place) and not reader.read(1)
    except zstandard.ZstdError as error:
        raise WireError(f"A compressed tensor cannot be read: {error}.") from error
    if not complete:
        raise WireError(f"A compressed tensor does not hold the {len(content):,} bytes that it should.")
    np.frombuffer(content, np.uint8).reshape(-1, itemsize)[:] = by_significance.T


def _zstandard() -> ModuleType:
    try:
        import zstandard
    except ImportError as missing:
        raise MissingExtra("govern", "zstandard", "Compression on the wire") from missing
    return zstandard
