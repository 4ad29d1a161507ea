"""What `modelkeep certify` hands over beside the certificate: the inputs, the weights, and how to check it all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelkeep.certify.schema import Certificate
    from modelkeep.core.data import Data
    from modelkeep.core.model import Model


def write_inputs(out: Path, data: Data, labelled: bool) -> None:
    """Write `inputs.npz` with the certified inputs, their labels where they mean anything, and the class names."""
    import numpy as np

    from modelkeep.core.errors import InputError
    from modelkeep.core.files import replace_file

    arrays = {"x": data.x.numpy(), "classes": np.array(data.classes)}
    if labelled:
        arrays["y"] = data.y.numpy()
    try:
        with replace_file(out / "inputs.npz") as unfinished, unfinished.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise InputError(f"'{out}' cannot be written: {error.strerror}.") from error


def file_of_weights(model: Path, weights: Path | None, loaded: Model, out: Path) -> Path:
    """The weights' file that also says the class names and the preprocessing; one is written where none is there."""
    from modelkeep.core.formats import write
    from modelkeep.core.formats.weights import read_weights

    held = model if model.suffix == ".safetensors" else weights
    if held is not None and held.suffix == ".safetensors" and "card" in read_weights(held)[1]:
        return held
    return write(out / "weights.safetensors", loaded.module, loaded.card)


def print_certificate(made: Certificate, record: Path, weights: Path, data: str) -> None:
    """Print what is proved, and the command by which a receiver checks it."""
    from rich.console import Console
    from rich.table import Table

    from modelkeep.certify.verifier import fingerprint

    accuracy = made.summary.verified_accuracy
    finite = sorted(example.radius for example in made.inputs if example.radius is not None)
    table = Table(title=f"{made.model.name} within {made.radius:g} in {made.norm}", show_header=False)
    rows = {
        "guarantee": made.guarantee.kind if made.guarantee.k is None else f"top-{made.guarantee.k}",
        "certified": f"{made.summary.certified} of {made.summary.examples} inputs",
        "verified accuracy": str(accuracy) if accuracy is not None else "unknown: the data has no labels",
        "median radius": f"{finite[len(finite) // 2]:.4g}" if finite else "no limit",
        "largest constant": f"{max(map(max, made.margins)):.4g}",
        "signed by": fingerprint(made.public_key),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console = Console()
    console.print(f"\nThe certificate: [bold]{record.resolve()}[/bold]", soft_wrap=True)
    console.print(table)
    if not made.summary.certified:
        console.print("Nothing is certified: the radius is too large, or the network was not trained for this.")
        console.print("`modelkeep certify train` trains one that can be.", markup=False)
    assert made.data is not None
    where: Path | str = record.parent / "inputs.npz"
    if made.data.chosen is not None:
        console.print(f"The inputs were drawn from {made.data.rows} rows: only with all of them can it be verified.")
        where = data
    console.print(
        f"To check it: modelkeep certify verify {record} --weights {weights} --data {where} "
        f"--signer {fingerprint(made.public_key)}",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
