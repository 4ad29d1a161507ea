"""Parameters: the ring, the primes and the scale of CKKS, refused unless they give 128 bits of security."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Self

from modelkeep.core.errors import InputError

SECURE_BITS: Mapping[int, int] = {1024: 27, 2048: 54, 4096: 109, 8192: 218, 16384: 438, 32768: 881}
"""The most bits that all primes together may have at 128-bit security against classical attacks, by the degree of the
ring: uniform ternary secrets, errors with a standard deviation of 3.2 (Albrecht2018, table 1)."""

LARGEST_PRIME = 60  # bits; SEAL keeps a prime in a machine word and needs the rest for lazy reduction


@dataclass(frozen=True)
class Parameters:
    """A ring of degree n, the bits of each prime, and the bits of the scale.

    A fresh ciphertext holds numbers modulo all primes but the last, which serves key switching only. A product uses up
    one prime (one level): the last of those that are left. The first prime is left for the answer, so it must have
    room for the largest value at this scale.

    >>> Parameters(8192, (50, 36, 36, 36, 50), 36).depth
    3
    >>> Parameters(4096, (50, 36, 36, 36, 50), 36)
    Traceback (most recent call last):
    modelkeep.core.errors.InputError: These parameters are not secure: the primes have 208 bits together, and a ring \
of degree 4096 gives 128-bit security for at most 109. Use a degree of 8192 or fewer levels.
    """

    degree: int
    primes: tuple[int, ...]
    scale_bits: int

    def __post_init__(self) -> None:
        if self.degree not in SECURE_BITS:
            raise InputError(f"The degree of the ring must be one of {sorted(SECURE_BITS)}. Got {self.degree}.")
        if len(self.primes) < 2:
            raise InputError(f"At least two primes are needed, one for the answer and one for keys. Got {self.primes}.")
        smallest = (2 * self.degree).bit_length()
        if not all(smallest <= bits <= LARGEST_PRIME for bits in self.primes):
            raise InputError(
                f"Primes of a ring of degree {self.degree} must have {smallest} to {LARGEST_PRIME} bits. "
                f"Got {self.primes}."
            )
        if self.primes[-1] < max(self.primes):
            raise InputError(f"The last prime must be the largest, or keys bring much noise. Got {self.primes}.")
        if not 1 <= self.scale_bits < self.primes[0]:
            raise InputError(
                f"The scale must have fewer bits than the first prime ({self.primes[0]}). Got {self.scale_bits}."
            )
        if self.bits > SECURE_BITS[self.degree]:
            raise InputError(self._insecure())

    def _insecure(self) -> str:
        enough = [degree for degree, bits in SECURE_BITS.items() if bits >= self.bits]
        remedy = f"Use a degree of {enough[0]} or fewer levels." if enough else "Use fewer levels or a smaller scale."
        return (
            f"These parameters are not secure: the primes have {self.bits} bits together, and a ring of degree "
            f"{self.degree} gives 128-bit security for at most {SECURE_BITS[self.degree]}. {remedy}"
        )

    @property
    def bits(self) -> int:
        """The bits of all primes together."""
        return sum(self.primes)

    @property
    def slots(self) -> int:
        """How many real numbers one ciphertext holds."""
        return self.degree // 2

    @property
    def depth(self) -> int:
        """How many products may follow on each other."""
        return len(self.primes) - 2

    @property
    def scale(self) -> float:
        """What a number is multiplied by before it is rounded to an integer."""
        return float(2**self.scale_bits)

    @property
    def room(self) -> float:
        """The largest value that an answer may have."""
        return float(2 ** (self.primes[0] - self.scale_bits - 1))

    def fingerprint(self) -> str:
        """A hash by which client and server know that they mean the same parameters."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """The parameters that `dataclasses.asdict` and JSON made a dictionary of; checked as if typed by hand."""
        try:
            primes = tuple(int(bits) for bits in values["primes"])
            return cls(int(values["degree"]), primes, int(values["scale_bits"]))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("Parameters of CKKS need 'degree', 'primes' and 'scale_bits', in integers.") from error


def choose(depth: int, *, scale_bits: int = 36, head_bits: int = 14, slots: int = 1) -> Parameters:
    """The smallest ring that has `depth` levels at this scale and `slots` slots at 128-bit security.

    Args:
        depth: how many products follow on each other.
        scale_bits: bits of the scale, and of each prime that a product uses up.
        head_bits: bits above the scale for the answer: its sign and its size.
        slots: the numbers that one ciphertext must hold at least.

    >>> choose(3)
    Parameters(degree=8192, primes=(50, 36, 36, 36, 50), scale_bits=36)
    """
    head = min(scale_bits + head_bits, LARGEST_PRIME)
    primes = (head, *(scale_bits,) * depth, head)
    for degree, bits in SECURE_BITS.items():
        if bits >= sum(primes) and degree >= 2 * slots and (2 * degree).bit_length() <= scale_bits:
            return Parameters(degree, primes, scale_bits)
    raise InputError(
        f"No ring in the standard's table has {depth} levels of {scale_bits} bits at 128-bit security: they need "
        f"{sum(primes)} bits, and at most {max(SECURE_BITS.values())} are allowed. Use a network with fewer layers or "
        "a smaller scale."
    )
