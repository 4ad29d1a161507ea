"""Wire: how tensors cross between parties, as the agreement says it: type, compression, deadline, largest message."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

from pydantic import ConfigDict

from modelkeep.core.errors import bad_parameter


@dataclass(frozen=True, kw_only=True)
class Wire:
    """How tensors cross.

    `dtype="bfloat16"` rounds float32 tensors on their way, which halves the bytes and is not exact; `compression`
    loses nothing. A party that does not answer within `deadline` seconds counts as gone, and a message of more than
    `largest` bytes is refused before anything is allocated for it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    dtype: Literal["float32", "bfloat16"] = "float32"
    compression: Literal["none", "zstd"] = "none"
    deadline: float = 60.0
    largest: int = 256 * 2**20

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "bfloat16"):
            raise bad_parameter("Wire", "dtype", "'float32' or 'bfloat16'", self.dtype)
        if self.compression not in ("none", "zstd"):
            raise bad_parameter("Wire", "compression", "'none' or 'zstd'", self.compression)
        if not (isfinite(self.deadline) and self.deadline > 0):
            raise bad_parameter("Wire", "deadline", "a number of seconds above 0", self.deadline)
        if self.largest < 1024:
            raise bad_parameter("Wire", "largest", "at least 1024 bytes", self.largest)
