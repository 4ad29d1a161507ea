"""`modelkeep govern material` and `draft`: write down what the parties are to agree on."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from modelkeep.cli.govern.identity import Json, show
from modelkeep.cli.model_options import Label, ModelOptions, Seed, open_data, with_model_options

if TYPE_CHECKING:
    from modelkeep import Data, Model
    from modelkeep.core.model_file import Description
    from modelkeep.govern.agreement.terms import Material

_TOLD = re.compile(r"([0-9a-f]{64}):([0-9]{1,12})")  # what `material` tells of data that lie elsewhere


def material(
    data: Annotated[str, typer.Argument(help="A built-in set, or your .npz, .csv, .parquet or image folder.")],
    *,
    label: Label = "label",
    as_json: Json = False,
) -> None:
    """Say what an agreement says of your data, for a person who drafts it without having them: fingerprints and rows.

    They go to `govern draft --data` and `--labels`, and give nothing of the data away.
    """
    from modelkeep.govern.agreement.terms import Material
    from modelkeep.zoo import datasets

    found = datasets.open(data, label=label, part="train")
    inputs, labels = Material.inputs("me", found), Material.labels("me", found)
    told = {"inputs": f"{inputs.fingerprint}:{inputs.rows}", "labels": f"{labels.fingerprint}:{labels.rows}"}
    typer.echo(json.dumps(told) if as_json else "\n".join(f"{kind}  {text}" for kind, text in told.items()))


@with_model_options
def draft(
    file: Annotated[Path, typer.Argument(help="Where to write the agreement.")],
    *,
    options: ModelOptions,
    party: Annotated[list[Path], typer.Option(help="A party's NAME.party.json; once for each.")],
    address: Annotated[list[str], typer.Option(help="Where a party listens: NAME=HOST:PORT; once for each.")],
    model: Annotated[
        str, typer.Option(help="An architecture such as small_cnn, a .safetensors file, or package.module:factory.")
    ],
    cut: Annotated[list[str], typer.Option(help="After which part of the network to cut; once for each cut.")],
    holders: Annotated[str, typer.Option(help="Who holds each piece, first to last: alice,bob.")],
    data: Annotated[str, typer.Option(help="What is trained on, or what `govern material` told of its inputs.")],
    labels: Annotated[str | None, typer.Option(help="Its labels, if they are not in --data; as there.")] = None,
    data_at: Annotated[str | None, typer.Option(help="Who has the inputs; the first holder by default.")] = None,
    labels_at: Annotated[str | None, typer.Option(help="Who has the labels; the last holder by default.")] = None,
    name: Annotated[str | None, typer.Option(help="What it is called; as the file by default.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="How often the training data is seen.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="How many updates there are, in place of --epochs.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples per update.")] = 128,
    micro_batches: Annotated[
        int, typer.Option(min=1, help="In how many parts a batch passes, so that all work at the same time.")
    ] = 1,
    optimizer: Annotated[Literal["adam", "sgd", "rmsprop"], typer.Option(help="With its usual settings.")] = "adam",
    learning_rate: Annotated[float, typer.Option(min=0, help="The optimizer's.")] = 1e-3,
    policy: Annotated[
        list[str] | None, typer.Option(help="What a party consents to: NAME=policy.json; everything by default.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Updates between two checkpoints.")] = 50,
    magnitude: Annotated[
        float | None, typer.Option(help="The largest number that may cross; any finite one by default.")
    ] = None,
    least_rows: Annotated[
        int, typer.Option(min=1, help="How many rows are judged together at least: one alone shows its label.")
    ] = 1,
    consent_seconds: Annotated[float, typer.Option(min=1, help="How long a consent holds.")] = 600.0,
    checked_passes: Annotated[
        int, typer.Option(min=0, help="How many of the last passes each party can be made to show to a checker.")
    ] = 0,
    bf16: Annotated[bool, typer.Option("--bf16", help="Halve the bytes on the wire; not exact.")] = False,
    compress: Annotated[bool, typer.Option("--compress", help="Compress what crosses; loses nothing.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Write an agreement for all to read and to sign: which model, cut where, who holds what, trained how.

    Nothing of the weights and of the data is in it, only fingerprints. `modelkeep govern advise` helps to choose the
    cut.
    """
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.agreement.draft import draft as drafted
    from modelkeep.govern.agreement.limits import Limits
    from modelkeep.govern.agreement.terms import Material
    from modelkeep.govern.identity import PublicIdentity
    from modelkeep.govern.wire.settings import Wire
    from modelkeep.training import SGD, Adam, Recipe, RMSProp

    if file.exists() and Agreement.read(file).signatures:
        raise GovernError(f"'{file}' is signed already, and is not overwritten. Name another file.")
    pieces = [each.strip() for each in holders.split(",")]
    at = {"data": data_at or pieces[0], "labels": labels_at or pieces[-1]}
    said = options.description(model)
    inputs, judged = _opened(data, said), _opened(labels if labels is not None else data, said)
    optimizers: dict[str, Adam | SGD | RMSProp] = {"adam": Adam(), "sgd": SGD(), "rmsprop": RMSProp()}
    made = drafted(
        name if name is not None else file.stem,
        _network(model, said, options.describe, inputs),
        parties=[PublicIdentity.read(each) for each in party],
        addresses=_pairs(address, "--address", "NAME=HOST:PORT"),
        cuts=cut,
        holders=pieces,
        data=_told(data, at["data"]) if inputs is None else Material.inputs(at["data"], inputs),
        labels=_told(labels, at["labels"]) if judged is None else Material.labels(at["labels"], judged),
        recipe=Recipe(
            epochs=epochs,
            steps=steps,
            batch_size=batch_size,
            optimizer=optimizers[optimizer],
            learning_rate=learning_rate,
            micro_batches=micro_batches,
        ),
        seed=seed,
        wire=Wire(dtype="bfloat16" if bf16 else "float32", compression="zstd" if compress else "none"),
        checkpoint_every=checkpoint_every,
        limits=Limits(
            magnitude=magnitude,
            least_rows=least_rows,
            consent_seconds=consent_seconds,
            checked_passes=checked_passes,
        ),
        policies={who: _policy(path) for who, path in _pairs(policy or [], "--policy", "NAME=FILE").items()},
    )
    made.write(file)
    show(made, as_json)
    if not as_json:
        typer.echo(f"Wrote {file}. Each party reads and signs it: modelkeep govern sign {file} --folder FOLDER")


def _opened(source: str, said: Description) -> Data | None:
    """The data, or None where only their fingerprint is here."""
    if _TOLD.fullmatch(source):
        return None
    return open_data(source, said, part="train", shape=said.card().get("input_shape"))


def _told(source: str | None, holder: str) -> Material:
    """Data that lie elsewhere, as their owner told of them."""
    from modelkeep.core.errors import InputError
    from modelkeep.govern.agreement.terms import Material

    if source is None:
        raise InputError("With the fingerprint of inputs in --data, name also that of their labels, with --labels.")
    told = _TOLD.fullmatch(source)
    assert told is not None
    return Material(holder, told[1], int(told[2]))


def _network(model: str, said: Description, describe: Path | None, like: Data | None) -> Model:
    """The model that the user named; one of our architectures is made for the data."""
    from modelkeep import Model
    from modelkeep.core.errors import InputError
    from modelkeep.core.formats.factory import OURS
    from modelkeep.zoo import architectures

    card = said.card()
    if model in architectures.names():
        if like is None:
            raise InputError(f"'{model}' is made for data. Name a factory with --arguments instead, or a model's file.")
        sizes = {"input_shape": list(like.input_shape), "classes": len(like.classes)}
        card["arguments"] = sizes | card.get("arguments", {})
        return Model.load(f"{OURS}:{model}", weights=said.weights, like=like, device=said.device, **card)
    if ":" not in model:
        return Model.load(model, weights=said.weights, like=like, describe=describe, device=said.device, **card)
    # Last, and only for a factory that the user named: a file in this folder must not pass for a library.
    sys.path.append(str(Path.cwd()))
    return Model.load(model, weights=said.weights, like=like, describe=describe, device=said.device, **card)


def _policy(path: str) -> dict[str, Any]:
    """A policy as it was written; the agreement looks at what it says."""
    from modelkeep.core.errors import InputError

    try:
        found: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"The policy '{path}' cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"The policy '{path}' is not JSON: {error}.") from error
    return found


def _pairs(given: Sequence[str], option: str, form: str) -> dict[str, str]:
    from modelkeep.core.errors import InputError

    for each in given:
        if "=" not in each:
            raise InputError(f"{option} is {form}. Got '{each}'.")
    return dict(each.split("=", 1) for each in given)
