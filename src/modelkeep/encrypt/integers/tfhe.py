"""TFHE: the tables of an integer network as programmable bootstraps (Chillotti2020), on encrypted integers.

concrete-python does the cryptography, in an environment of its own (`make tfhe`); a worker process there is given plain
arrays and gives plain arrays back.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from modelkeep.core.errors import EncryptError, InputError
from modelkeep.core.results import Result, Tensor, measured
from modelkeep.encrypt.integers.network import IntegerNetwork
from modelkeep.encrypt.integers.ring import require_integers

WORKER = Path(__file__).with_name("tfhe_worker.py")
VARIABLE = "MODELKEEP_TFHE"
MOST_BITS = 8
"""At 9 bits (and an error of 2^-40 per bootstrap) the making of keys did not end in ten minutes on two busy cores."""


class NoTFHE(EncryptError):
    """The environment with concrete-python is not there."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EncryptedRun(Result, kind="tfhe-run"):
    """What an integer network said about encrypted inputs, and what that took.

    `seconds` has the parts compile, keys (once) and encrypt, evaluate, decrypt (for all rows together). `p_error` is
    the probability that one bootstrap is wrong.
    """

    scores: Tensor = field(repr=False)
    exact: bool
    rows_count: int
    bits: int
    bootstraps: int
    p_error: float
    seconds: dict[str, float]
    key_bytes: int
    input_bytes: int

    def rows(self) -> list[tuple[str, str]]:
        each = {name: self.seconds[name] / self.rows_count for name in ("encrypt", "evaluate", "decrypt")}
        return [
            ("equal to the integer network", "yes, bit for bit" if self.exact else "NO"),
            ("bits of a table", str(self.bits)),
            ("bootstraps per input", f"{self.bootstraps}, each wrong with probability {self.p_error:g}"),
            ("evaluate", f"{each['evaluate']:.3g} s per input"),
            ("encrypt, decrypt", f"{each['encrypt']:.3g} s, {each['decrypt']:.3g} s per input"),
            ("compile, make keys", f"{self.seconds['compile']:.3g} s, {self.seconds['keys']:.3g} s, once"),
            ("keys, input", f"{self.key_bytes / 1e6:.0f} MB, {self.input_bytes / 1e6:.2f} MB"),
        ]


def find_environment() -> Path:
    """The Python of the environment that has concrete-python.

    Raises:
        NoTFHE: It is not there.
    """
    named = os.environ.get(VARIABLE)
    places = [Path(named)] if named else [folder / ".tfhe" for folder in (Path.cwd(), *WORKER.parents)]
    for place in places:
        if (place / "bin" / "python").exists():
            return place / "bin" / "python"
    raise NoTFHE(
        "TFHE needs concrete-python in an environment of its own, which was not found. Make it with: make tfhe "
        f"(or let {VARIABLE} name its folder)."
    )


def run_encrypted(
    network: IntegerNetwork, integers: torch.Tensor, *, layers: int | None = None, p_error: float = 1e-6, seed: int = 0
) -> EncryptedRun:
    """Encrypt rows of encoded inputs, evaluate the first `layers` layers (all by default) on them, and decrypt.

    Args:
        network: One whose sums never wrap, with tables of at most eight bits.
        integers: `(n, features)`, as the network's encoder makes them.
        layers: How many layers.
        p_error: The probability that one bootstrap is wrong; smaller is slower.
        seed: Goes into the provenance only; keys and noise come from the operating system.
    """
    require_integers(integers)
    used = network.layers[: layers if layers is not None else len(network.layers)]
    _check(network, integers)
    request: dict[str, np.ndarray] = {
        "rows": integers.numpy(),
        "bits": np.array(network.ring.bits),
        "levels": np.array(network.encoder.levels),
        "p_error": np.array(p_error),
    }
    for i, layer in enumerate(used):
        request |= {f"weight{i}": layer.weight.numpy(), f"bias{i}": layer.bias.numpy()}
        if layer.table is not None:
            request[f"table{i}"] = layer.table.entries.numpy()
    with measured(seed) as provenance:
        answer = _ask(find_environment(), request)
        scores = torch.from_numpy(answer["scores"])
        expected = IntegerNetwork(network.encoder, used, network.ring).scores(integers)
        times = zip(answer["names"].tolist(), answer["seconds"].tolist(), strict=True)
        return EncryptedRun(
            provenance=provenance(),
            scores=scores,
            exact=torch.equal(scores, expected),
            rows_count=len(integers),
            bits=network.ring.bits,
            bootstraps=int(answer["bootstraps"]),
            p_error=p_error,
            seconds={str(name): float(value) for name, value in times},
            key_bytes=int(answer["key_bytes"]),
            input_bytes=int(answer["input_bytes"]),
        )


def _check(network: IntegerNetwork, integers: torch.Tensor) -> None:
    if len(integers) == 0:
        raise InputError("There is no row to encrypt.")
    if network.ring.bits > MOST_BITS:
        raise InputError(
            f"TFHE looks up at most {MOST_BITS} bits in reasonable time, and this network computes modulo "
            f"2^{network.ring.bits}. Quantise it with fewer bits, such as Bits(inputs=2, weights=2, activations=2)."
        )
    if not network.never_wraps:
        raise InputError("A sum of this network may leave its ring. Quantise it without `modulus`.")
    if any(layer.table is not None and layer.table.bits != network.ring.bits for layer in network.layers):
        raise InputError("Under TFHE a table must read all bits of the ring.")
    if any(layer.table is not None and layer.table.dropped for layer in network.layers):
        raise InputError("Under TFHE a table must drop no bits.")


def _ask(python: Path, request: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "request.npz", Path(folder) / "answer.npz"
        with asked.open("wb") as file:
            np.savez(file, allow_pickle=False, **request)
        command = [str(python), "-W", "ignore", str(WORKER), str(asked), str(answered)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not answered.exists():
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise EncryptError(f"The TFHE worker ended with code {done.returncode}: {last}")
        with np.load(answered, allow_pickle=False) as held:
            return {name: held[name] for name in held.files}
