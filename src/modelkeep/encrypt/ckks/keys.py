"""Keys: the client's secret, which only encrypts and decrypts here, and the keys that a server computes with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from modelkeep.core.errors import EncryptError
from modelkeep.encrypt.ckks.scheme import Floats, Scheme, seal, to_bytes

GENERATOR = 3  # rotating the slots by k is X -> X^(3^k) in SEAL


@dataclass(frozen=True)
class EvaluationKeys:
    """What a server needs to compute: to relinearise after a product, and to rotate by certain steps.

    Either key gives 128-bit security of the secret and may be sent to anyone.
    """

    relin: Any
    galois: Any

    @classmethod
    def read(cls, scheme: Scheme, relin: bytes, galois: bytes, steps: Iterable[int]) -> EvaluationKeys:
        """Keys from the network, checked to be whole: every rotation of the plan must be among them."""
        keys = cls(scheme.read_key("relin", relin), scheme.read_key("galois", galois))
        missing = [step for step in steps if not keys.galois.has_key(galois_element(step, scheme.parameters.degree))]
        if missing:
            raise EncryptError(f"The Galois key lacks the rotations {missing} of this plan. Make new keys for it.")
        return keys


class ClientKeys:
    """The secret key of one client, and what it can do: encrypt, decrypt, make keys for the server.

    There is no call that gives the secret away; `repr` shows the parameters only.

    >>> from modelkeep.encrypt.ckks.parameters import Parameters
    >>> keys = ClientKeys(Scheme(Parameters(4096, (40, 28, 40), 28)))
    >>> bool(abs(keys.decrypt(keys.encrypt([1.5]))[0] - 1.5) < 1e-4)
    True
    """

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        self._generator = seal.KeyGenerator(scheme.context)
        secret = self._generator.secret_key()
        self._encryptor = seal.Encryptor(scheme.context, secret)
        self._decryptor = seal.Decryptor(scheme.context, secret)

    def __repr__(self) -> str:
        return f"ClientKeys({self.scheme.parameters})"

    def __reduce__(self) -> Any:
        raise EncryptError("The secret key never leaves the process that made it; keys cannot be copied or pickled.")

    def evaluation(self, steps: Iterable[int]) -> EvaluationKeys:
        """Keys for a server in this process: relinearisation, and rotations by these steps."""
        relin, galois = seal.RelinKeys(), seal.GaloisKeys()
        self._generator.create_relin_keys(relin)
        self._generator.create_galois_keys(self._elements(steps), galois)
        return EvaluationKeys(relin, galois)

    def evaluation_bytes(self, steps: Iterable[int]) -> tuple[bytes, bytes]:
        """The relinearisation and Galois keys for a server elsewhere; random parts are sent as their seed."""
        relin = to_bytes(self._generator.create_relin_keys())
        return relin, to_bytes(self._generator.create_galois_keys(self._elements(steps)))

    def encrypt(self, values: Iterable[float] | Floats) -> Any:
        """A fresh ciphertext of these numbers, at level 0."""
        ciphertext = seal.Ciphertext()
        self._encryptor.encrypt_symmetric(self.scheme.encode(list(values)), ciphertext)
        return ciphertext

    def encrypt_bytes(self, values: Iterable[float] | Floats) -> bytes:
        """A fresh ciphertext for the network: half the bytes, because its random part is sent as its seed."""
        return to_bytes(self._encryptor.encrypt_symmetric(self.scheme.encode(list(values))))

    def decrypt(self, ciphertext: Any) -> Floats:
        """The numbers of all slots. Do not hand them to the server as they are: see `flooding`."""
        plaintext = seal.Plaintext()
        self._decryptor.decrypt(ciphertext, plaintext)
        return self.scheme.decode(plaintext)

    def _elements(self, steps: Iterable[int]) -> list[int]:
        return sorted({galois_element(step, self.scheme.parameters.degree) for step in steps})


def galois_element(step: int, degree: int) -> int:
    """The exponent by which SEAL names the rotation of the slots by `step` to the left.

    >>> galois_element(1, 8192), galois_element(4096, 8192)
    (3, 1)
    """
    return pow(GENERATOR, step % (degree // 2), 2 * degree)
