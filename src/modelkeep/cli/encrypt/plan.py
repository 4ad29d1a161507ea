"""`modelkeep encrypt plan`: can this model answer encrypted questions, how, and at what cost?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modelkeep.cli.encrypt.preparation import Packing, Samples, SomeData, Tolerance, load, replace_activations
from modelkeep.cli.model_options import ModelOptions, ModelSource, Seed, with_model_options


@with_model_options
def plan(
    model: ModelSource,
    data: SomeData = None,
    *,
    options: ModelOptions,
    packing: Packing = None,
    samples: Samples = 1,
    tolerance: Tolerance = 1e-4,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put quadratics for activations and average for max-pools, and fine-tune.")
    ] = False,
    train: Annotated[str | None, typer.Option(help="The training data; of a built-in set it is known.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file for the replaced model, .pt2.")] = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Plan a model for encrypted inputs: packing, ring, levels, rotations, and the time, bytes and error to expect.

    Encrypted values can be added and multiplied, no more: layers must be affine (linear, convolution, batch norm,
    average pool), activations quadratic. A layer that is neither is refused by its name; with --replace it is replaced
    and the model fine-tuned. --data says how large values get; without it the worst case over the bounds is assumed.
    Times are of this machine.
    """
    from rich.console import Console

    from modelkeep.cli.checks import check_out_file
    from modelkeep.cli.convert import describe_model
    from modelkeep.core import progress
    from modelkeep.core.conversion import write_pt2
    from modelkeep.core.errors import InputError
    from modelkeep.encrypt.ckks.plan import plan_inference

    check_out_file(out)
    if out is not None and (not replace or out.suffix != ".pt2"):
        raise InputError(f"--out is for the model that --replace makes, and is a .pt2 file. Got --out {out}.")
    with progress.show():
        loaded, examples = load(model, data, options)
        if replace:
            loaded = replace_activations(loaded, model, data, train, examples, options, seed)
            if out is not None:
                write_pt2(loaded, out)
                describe_model(loaded, options.description(model)).write(out.with_suffix(".toml"))
        made = plan_inference(loaded, examples, packing=packing, samples=samples, tolerance=tolerance).plan
    if as_json:
        typer.echo(made.to_json())
        return
    Console().print(made)
    if out is not None:
        typer.echo(f"wrote {out} and {out.with_suffix('.toml')}; serve it: modelkeep encrypt serve {out} --data {data}")
