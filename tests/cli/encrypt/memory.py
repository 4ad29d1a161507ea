"""Searching the memory of a living process, and the forms in which a secret key of CKKS could lie there."""

from __future__ import annotations

import struct
from typing import Any

CHUNK = 1 << 20
WORDS = 8  # of 64 bits in a pattern: chance finds one in 2^512 places


def find_in_process(pid: int | str, patterns: list[bytes]) -> int:
    """How many of the patterns lie somewhere in the writable memory of a process."""
    longest = max(map(len, patterns))
    found: set[bytes] = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            place, rights, *_ = line.split()
            if not rights.startswith("rw"):
                continue
            at, end = (int(number, 16) for number in place.split("-"))
            tail = b""
            while at < end:
                try:
                    memory.seek(at)
                    content = memory.read(min(CHUNK, end - at))
                except OSError:
                    break
                if not content:
                    break
                at += len(content)
                if content.count(0) == len(content):  # most of what is mapped was never used
                    tail = b""
                    continue
                window = tail + content
                found.update(pattern for pattern in patterns if pattern in window)
                if len(found) == len(patterns):
                    return len(found)
                tail = window[-longest:]
    return len(found)


def secret_patterns(keys: Any) -> tuple[list[bytes], list[bytes]]:
    """Pieces of a secret key as SEAL keeps it (evaluated, modulo each prime), and of its coefficients -1, 0, 1."""
    scheme = keys.scheme
    secret = keys._generator.secret_key()  # held by a name: its data would go with it
    words = secret.data()
    n = scheme.parameters.degree
    evaluated = []
    for block in range(len(scheme.primes)):
        start = block * n + n // 2
        evaluated.append(struct.pack(f"<{WORDS}Q", *(words.data(start + i) for i in range(WORDS))))
    small = coefficients([words.data(i) for i in range(n)], n, scheme.primes[0], 64)
    assert set(small) <= {0, 1, scheme.primes[0] - 1}  # the transform is SEAL's
    ternary = [value if value <= 1 else -1 for value in small]
    modulo = [value % scheme.primes[0] for value in ternary]
    plain = [struct.pack("<64b", *ternary), struct.pack("<64i", *ternary), struct.pack("<64q", *ternary)]
    return evaluated, [*plain, struct.pack("<64Q", *modulo)]


def coefficients(values: list[int], n: int, prime: int, count: int) -> list[int]:
    """The first coefficients of a polynomial from SEAL's evaluations: a slow inverse transform, straight from the sum.

    Entry i is the value at psi^(2 r(i) + 1): r reverses the bits of i, psi is the smallest primitive 2n-th root of one.
    """
    bits = n.bit_length() - 1
    power = next(p for g in range(2, 1000) if pow(p := pow(g, (prime - 1) // (2 * n), prime), n, prime) == prime - 1)
    psi = min(pow(power, k, prime) for k in range(1, 2 * n, 2))
    inverse = pow(psi, -1, prime)
    steps = [pow(inverse, 2 * int(f"{i:0{bits}b}"[::-1], 2) + 1, prime) for i in range(n)]
    found = []
    terms = list(values)
    for _ in range(count):
        found.append(sum(terms) * pow(n, -1, prime) % prime)
        terms = [term * step % prime for term, step in zip(terms, steps, strict=True)]
    return found
