"""Reading what was handed over: the certificate, its signature, the weights. Nothing in these files is trusted."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .arithmetic import Array
from .network import Refused

FORMAT, VERSIONS = "modelkeep certificate", (1, 2)
_FIELDS: Mapping[Any, tuple[str, tuple[str, ...]]] = {
    dict: ("dict", ("made", "model", "weights", "rounding", "guarantee", "summary")),
    list: ("list", ("operations", "layers", "margins", "inputs")),
    str: ("str", ("norm", "public_key", "signature")),
    (float, int): ("float", ("radius", "slack")),
}
_TYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8"}


def canonical(content: Any) -> bytes:
    """The one way to write JSON that is signed and hashed."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def read_certificate(path: Path) -> dict[str, Any]:
    """The certificate as plain values, with all its fields there and of their types."""
    try:
        content = json.loads(path.read_bytes(), object_pairs_hook=_once, parse_constant=_not_finite)
    except OSError as error:
        raise Refused(f"'{path}' cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise Refused(f"'{path}' is not a whole certificate: {error}. Ask for the file again.") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Refused(f"'{path}' is JSON, but not a {FORMAT}.")
    if content.get("version") not in VERSIONS or isinstance(content["version"], bool | float):
        raise Refused(f"The certificate is of version {content.get('version')}; this verifier reads versions 1 and 2.")
    for kind, (word, names) in _FIELDS.items():
        for name in names:
            if not isinstance(content.get(name), kind):
                raise Refused(f"The certificate has no usable '{name}': it must be of the type {word}.")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return dict(pairs)


def _not_finite(text: str) -> float:
    raise ValueError(f"it holds {text}, and every number must be finite")


def fingerprint(public_key: str) -> str:
    """The short form of a public key (hexadecimal) that two people can compare.

    >>> fingerprint("00" * 32)
    '6668:7aad:f862:bd77'
    """
    digest = hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:16]
    return ":".join(digest[i : i + 4] for i in range(0, 16, 4))


def is_signed(certificate: Mapping[str, Any]) -> bool:
    """Whether the signature is that of the content by the public key which stands in it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    content = {name: value for name, value in certificate.items() if name != "signature"}
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(certificate["public_key"]))
        key.verify(bytes.fromhex(certificate["signature"]), canonical(content))
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Stored:
    """A tensor as it stands in the file."""

    dtype: str
    shape: tuple[int, ...]
    raw: bytes

    def record(self) -> dict[str, Any]:
        """What a certificate says of a tensor."""
        return {"dtype": self.dtype, "shape": list(self.shape), "sha256": hashlib.sha256(self.raw).hexdigest()}

    def array(self) -> Array:
        return np.frombuffer(self.raw, _TYPES[self.dtype]).reshape(self.shape).astype(np.float64)


def read_weights(path: Path) -> tuple[dict[str, Stored], Mapping[str, Any] | None]:
    """A safetensors file: 8 bytes with the length of a JSON header, the header, then the tensors' bytes.

    The tensors by name, and what the file says of the model where ModelKeep wrote it.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Refused(f"The weights '{path}' cannot be read: {error.strerror}.") from error
    try:
        (length,) = struct.unpack_from("<Q", content)
        if length > len(content) - 8:
            raise ValueError(f"its header should have {length} bytes")
        header = json.loads(content[8 : 8 + length], object_pairs_hook=_once)
        own = json.loads(header.pop("__metadata__", {}).get("modelkeep", "{}"))
        stored = {name: _read_tensor(entry, memoryview(content)[8 + length :]) for name, entry in header.items()}
        return stored | {alias: stored[name] for alias, name in own.get("aliases", {}).items()}, own.get("card")
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"'{path}' is not a whole safetensors file: {error!r}.") from error


def _read_tensor(entry: Mapping[str, Any], body: memoryview) -> Stored:
    dtype, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if not 0 <= start <= end <= len(body):
        raise ValueError("a tensor lies outside of the file")
    if dtype in _TYPES and math.prod(shape) * int(_TYPES[dtype][-1]) != end - start:
        raise ValueError("a tensor has not as many bytes as its shape needs")
    return Stored(dtype, shape, bytes(body[start:end]))


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Those of the arrays `names` that an .npz file holds."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in names if name in arrays}
    except (OSError, ValueError, KeyError, EOFError, AttributeError, TypeError) as error:
        raise Refused(f"'{path}' is not an .npz file that can be read: {error}.") from error
