"""TFHE worker: a script for the environment `.tfhe` alone, which has concrete-python and no ModelKeep.

    .tfhe/bin/python tfhe_worker.py REQUEST.npz ANSWER.npz

The request holds arrays: `rows`, `bits`, `levels`, `p_error`, and per layer i `weight{i}`, `bias{i}` and, where it has
one, `table{i}`. Keys are made, inputs encrypted, layers evaluated and answers decrypted in this one process: it
measures TFHE, and is not a service.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np


def main(request: str, answer: str) -> None:
    """Answer a request."""
    from concrete import fhe

    with np.load(request, allow_pickle=False) as held:
        given = {name: held[name] for name in held.files}
    half = 1 << (int(given["bits"]) - 1)
    count = sum(name.startswith("weight") for name in given)
    tables = {
        # The entries of negative sums stand in the upper half; here sums are moved to begin at 0.
        i: fhe.LookupTable(np.roll(given[f"table{i}"], half).tolist())
        for i in range(count)
        if f"table{i}" in given
    }

    def evaluate(x: Any) -> Any:
        for i in range(count):
            moved = x @ given[f"weight{i}"].T + given[f"bias{i}"] + half
            # The compiler measures sizes on samples, which need not reach the largest sum; the ring's size is known.
            moved = fhe.hint(moved, bit_width=int(given["bits"]))
            x = tables[i][moved] if i in tables else moved
        return x

    random = np.random.default_rng(0)
    width = given["weight0"].shape[1]
    samples = [random.integers(0, int(given["levels"]) + 1, width) for _ in range(100)]
    samples.append(np.full(width, int(given["levels"])))
    times: dict[str, float] = {}
    began = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal began
        times[name] = times.get(name, 0.0) + time.perf_counter() - began
        began = time.perf_counter()

    settings = fhe.Configuration(p_error=float(given["p_error"]))
    circuit = fhe.Compiler(evaluate, {"x": "encrypted"}).compile(samples, settings)
    lap("compile")
    circuit.keygen()
    lap("keys")
    answers = []
    for row in given["rows"]:
        sealed = circuit.encrypt(row)
        lap("encrypt")
        found = circuit.run(sealed)
        lap("evaluate")
        answers.append(circuit.decrypt(found))
        lap("decrypt")
    last = count - 1 not in tables
    np.savez(
        answer,
        scores=np.array(answers, dtype=np.int64) - (half if last else 0),
        names=np.array(list(times)),
        seconds=np.array(list(times.values())),
        key_bytes=np.array(circuit.size_of_bootstrap_keys + circuit.size_of_keyswitch_keys),
        input_bytes=np.array(circuit.size_of_inputs),
        bootstraps=np.array(circuit.programmable_bootstrap_count),
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
