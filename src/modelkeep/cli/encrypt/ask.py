"""`modelkeep encrypt ask`: ask a server about inputs that it does not see."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

KEY = "MODELKEEP_KEY"


def ask(
    url: Annotated[str, typer.Argument(help="Where the server listens, such as http://127.0.0.1:8443.")],
    *,
    inputs: Annotated[
        Path, typer.Option("--input", help="A .npy file with one input, or several along its first axis.")
    ],
    fingerprint: Annotated[str | None, typer.Option(help="The one that the model must have.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file for the logits, .npy.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Encrypt inputs, have a server compute on them, and decrypt the answers. Keys are made anew and never stored.

    Where the server has access control, the key that its owner gave you is in MODELKEEP_KEY.

    Do not hand the decrypted logits to the server: their last digits give the secret key away. What may be shared is
    said in the guide on encrypted data.
    """
    import numpy as np
    import torch
    from rich.console import Console

    from modelkeep.cli.checks import check_out_file
    from modelkeep.core import progress
    from modelkeep.core.errors import InputError
    from modelkeep.encrypt.ckks.client import Client

    check_out_file(out)
    try:
        values = np.load(inputs, allow_pickle=False)
        x = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{inputs} is not a .npy file with numbers. Write one with numpy.save.") from error
    with progress.show(), Client(url, model=fingerprint, key=os.environ.get(KEY)) as client:
        single = tuple(x.shape) == client.plan.input_shape
        answers = client.ask(x[None] if single else x)
    if out is not None:
        with out.open("wb") as stream:
            np.save(stream, answers.logits.numpy())
    if as_json:
        typer.echo(answers.to_json())
    else:
        Console().print(answers)
