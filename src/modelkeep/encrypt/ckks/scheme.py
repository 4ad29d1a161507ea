"""Scheme: SEAL's context and encoder for one set of parameters, and the way of its objects to bytes and back.

The secret key is no part of this module: what stands here, both sides have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from modelkeep.core.errors import EncryptError, MissingExtra
from modelkeep.encrypt.ckks.parameters import Parameters

try:
    from tenseal import sealapi
except ImportError as _missing:
    raise MissingExtra("encrypt", "tenseal", "Computing on encrypted data") from _missing

seal = sealapi
"""SEAL's own calls; TenSEAL's tensors, which stand above them, are not used."""

Floats = npt.NDArray[np.float64]


class Scheme:
    """Encodes numbers as plaintexts of a level and a scale, and knows what a valid ciphertext is.

    Level 0 is a fresh ciphertext; each rescaling goes one level down, to `parameters.depth` at most.

    >>> scheme = Scheme(Parameters(4096, (40, 28, 40), 28))
    >>> bool(abs(scheme.decode(scheme.encode([0.5, -1.25]))[:2] - [0.5, -1.25]).max() < 1e-5)
    True
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        wanted = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
        wanted.set_poly_modulus_degree(parameters.degree)
        wanted.set_coeff_modulus(seal.CoeffModulus.Create(parameters.degree, list(parameters.primes)))
        # SEAL checks the standard's table too: two independent tables must agree.
        self.context = seal.SEALContext(wanted, True, seal.SEC_LEVEL_TYPE.TC128)
        if not self.context.parameters_set():
            raise EncryptError(f"SEAL refuses {parameters}: {self.context.parameters_error_message()}")
        self.encoder = seal.CKKSEncoder(self.context)
        self.evaluator = seal.Evaluator(self.context)
        self._levels = _walk(self.context)
        self.primes: tuple[int, ...] = tuple(
            int(prime.value()) for prime in self.context.key_context_data().parms().coeff_modulus()
        )

    @property
    def slots(self) -> int:
        """How many real numbers one ciphertext holds."""
        return self.parameters.slots

    def identity(self, level: int) -> list[int]:
        """SEAL's hash of the parameters at a level."""
        return self._levels[level]

    def level(self, ciphertext: Any) -> int:
        """The level of a ciphertext or of a plaintext."""
        return self._levels.index(list(ciphertext.parms_id()))

    def prime(self, level: int) -> int:
        """The prime that a rescaling at this level divides by."""
        return self.primes[len(self.primes) - 2 - level]

    def encode(self, values: Sequence[float] | Floats | float, *, level: int = 0, scale: float | None = None) -> Any:
        """A plaintext. A vector fills the slots from the first, a number fills all (and is much cheaper)."""
        plaintext = seal.Plaintext()
        made = float(values) if isinstance(values, (int, float)) else np.asarray(values, dtype=np.float64).tolist()
        self.encoder.encode(made, self.identity(level), scale or self.parameters.scale, plaintext)
        return plaintext

    def decode(self, plaintext: Any) -> Floats:
        """The numbers of all slots."""
        return np.array(self.encoder.decode_double(plaintext))

    def read_ciphertext(self, content: bytes, *, what: str = "ciphertext") -> Any:
        """A ciphertext from the network, or an EncryptError: of these parameters, of two parts, in NTT form."""
        ciphertext = self._read(seal.Ciphertext(), content, what)
        if ciphertext.size() != 2 or not ciphertext.is_ntt_form() or ciphertext.is_transparent():
            raise EncryptError(f"The {what} is not one of CKKS with two parts. Encrypt the input anew.")
        return ciphertext

    def read_key(self, kind: str, content: bytes) -> Any:
        """A public, relinearisation or Galois key from the network, or an EncryptError."""
        empty = {"public": seal.PublicKey, "relin": seal.RelinKeys, "galois": seal.GaloisKeys}[kind]()
        return self._read(empty, content, f"{kind} key")

    def _read(self, empty: Any, content: bytes, what: str) -> Any:
        with _memory_file(content) as path:
            try:
                empty.load(self.context, path)
            except (RuntimeError, ValueError) as error:  # SEAL's checks: header, sizes, parameters, each coefficient
                raise EncryptError(
                    f"The {what} cannot be used: SEAL says '{error}'. It was damaged on the way or made with other "
                    "parameters or another version of SEAL."
                ) from error
        if not seal.is_valid_for(empty, self.context):
            raise EncryptError(f"The {what} does not belong to these parameters. Make new keys for this plan.")
        return empty


def to_bytes(made: Any) -> bytes:
    """A SEAL object that may leave the process as bytes. The secret key is refused."""
    if isinstance(made, seal.SecretKey):
        raise EncryptError("The secret key never leaves the client, so it has no bytes to send.")
    with _memory_file(b"") as path:
        made.save(path)
        with open(path, "rb") as stream:
            return stream.read()


@contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    """A file in memory: SEAL's binding reads and writes paths only, and nothing encrypted needs to touch the disk."""
    descriptor = os.memfd_create("modelkeep-seal")
    try:
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _walk(context: Any) -> list[list[int]]:
    """SEAL's hashes of the parameters from the first level to the last."""
    found = []
    at = context.first_context_data()
    while at is not None:
        found.append(list(at.parms_id()))
        at = at.next_context_data()
    return found
