"""`modelkeep certify`: how far inputs may be moved before the answer can change, in a file that others can check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from modelkeep.cli.checks import check_out
from modelkeep.cli.hand_over import file_of_weights, print_certificate, write_inputs
from modelkeep.cli.method_options import make_method, method_command
from modelkeep.cli.model_options import (
    DataSource,
    ModelOptions,
    ModelSource,
    Seed,
    in_classes_of,
    learn_encoder,
    model_and_data,
    open_data,
    save_beside,
    training_data,
    with_model_options,
)
from modelkeep.cli.radius import Radius, radius_option
from modelkeep.cli.verify import verify
from modelkeep.core.errors import did_you_mean

if TYPE_CHECKING:
    from modelkeep.core.data import Data
    from modelkeep.core.model import Model
    from modelkeep.core.results import Result


class _ModelOrCommand(TyperGroup):
    """`modelkeep certify MODEL …` certifies, without a further word; `modelkeep certify verify …` checks."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:  # click's own types, wherever Typer has them from
        mistyped = args and args[0].isalpha() and not Path(args[0]).exists() and did_you_mean(args[0], self.commands)
        if args and args[0] not in (*self.commands, "--help") and not mistyped:
            args = ["model", *args]
        return super().parse_args(ctx, args)


_GUARANTEE = typer.Option(
    "--guarantee",
    help="What must stay: `standard` (the answer), `top-3` (for some k up to 3, the k top classes), or "
    "`affinity:cat+dog,car+truck` (a set of top classes within one of these groups).",
)
_NormName = Annotated[Literal["l2", "linf", "l1"], typer.Option(help="How a change is measured.")]

app = typer.Typer(
    cls=_ModelOrCommand,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Prove how far inputs may be moved before the answer can change: `modelkeep certify MODEL --data DATA "
    "--radius R`. Check what others have proved: `modelkeep certify verify certificate.json`.",
)


@app.command("model", cls=method_command("certify", "lipschitz"), epilog="The word `model` may be left out.")
@with_model_options
def certify(
    context: typer.Context,
    model: ModelSource,
    data: DataSource,
    *,
    options: ModelOptions,
    method: Annotated[
        str, typer.Option(help="How to certify; `modelkeep methods certify` lists them. Its settings are options.")
    ] = "lipschitz",
    guarantee: Annotated[str | None, _GUARANTEE] = None,
    examples: Annotated[int, typer.Option(min=1, help="How many examples to certify, drawn by the seed.")] = 1000,
    out: Annotated[
        Path, typer.Option(help="The folder for certify.html, certificate.json and inputs.npz; of others, result.json.")
    ] = Path("modelkeep-out"),
    key: Annotated[
        Path | None, typer.Option(help="Your private key; made at first use. Default: in your settings folder.")
    ] = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print certificate.json instead of the summary.")] = False,
) -> None:
    """Certify a model: within which distance can no change of an input change the answer?

    The proof is a global Lipschitz bound, so it only reaches far for networks trained for it. Writes a certificate,
    signed with your key, that others can check without your code. Other methods write their result. Examples:

    * `modelkeep certify model.safetensors --data digits --radius 0.3`

    * `modelkeep certify model.safetensors --data digits --radius 0.1 --norm linf --guarantee top-3`

    * `modelkeep certify model.safetensors --data digits --method smoothing --sigma 0.25 --examples 20`

    * `modelkeep certify verify modelkeep-out/certificate.json --weights model.safetensors --data digits`
    """
    import torch

    from modelkeep.certify import Certify
    from modelkeep.certify.certificate import make_certificate
    from modelkeep.certify.guarantees import parse_guarantee
    from modelkeep.core import progress
    from modelkeep.core.signing import Signer, default_key
    from modelkeep.report.certification import CertificateReport, certification_page

    check_out(out)
    loaded, whole = model_and_data(model, data, options)
    promise = None if guarantee is None else parse_guarantee(guarantee, loaded.classes)
    how = make_method(context, guarantee=promise, data=whole)
    if not isinstance(how, Certify) or how.relaxation:  # no verifier computes these again
        drawn, _ = in_classes_of(loaded, whole.sample(min(examples, len(whole)), seed))
        with progress.show():
            found = how(loaded, drawn, seed=seed)
        _write_result(found, out, Path(model).name, drawn.name)
        _print_result(found, as_json)
        return
    examined, labelled = in_classes_of(loaded, whole)
    chosen = key if key is not None else default_key()
    new = not chosen.exists()
    signer = Signer.at(chosen)
    with progress.show():
        made = make_certificate(
            how, loaded, examined, labelled=labelled, name=Path(model).name, examples=examples, seed=seed
        ).sign(signer)
    _make_folder(out)
    assert made.data is not None
    if made.data.chosen is not None:
        examined = examined.take(torch.tensor(made.data.chosen))
    write_inputs(out, examined, labelled)
    held = file_of_weights(Path(model), options.weights, loaded, out)
    record = made.write(out / "certificate.json")
    reported = CertificateReport.of(made, seed)
    certification_page(reported, model_name=Path(model).name, data_name=examined.name).write(
        out, "certify.html", "certify.json"
    )
    if as_json:
        typer.echo(record.read_text(encoding="utf-8"))
        return
    if new:
        typer.echo(f"A key was made for you: {chosen}. Keep it to yourself: it signs in your name.")
    print_certificate(made, record, held, data)


@app.command(epilog="After Ctrl-C the same command goes on.")
@with_model_options
def train(
    model: Annotated[
        str,
        typer.Argument(help="What to train: an architecture such as cnn_2c2f, a model file, package.module:factory."),
    ],
    data: DataSource,
    *,
    options: ModelOptions,
    radius: Annotated[Radius, radius_option()],
    norm: _NormName = "l2",
    guarantee: Annotated[str, _GUARANTEE] = "standard",
    fine_tune: Annotated[
        bool, typer.Option("--fine-tune", help="Go on from the model's weights; else it starts anew, orthogonal.")
    ] = False,
    epochs: Annotated[int, typer.Option(min=1, help="How often the training data is seen.")] = 10,
    learning_rate: Annotated[float, typer.Option(min=0, help="Of Adam; it falls to 0 on a line.")] = 5e-3,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples per update.")] = 256,
    learned: Annotated[
        str | None, typer.Option("--train", help="The training data; of a built-in set it is known.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for certified.safetensors and result.json.")] = Path(
        "modelkeep-out"
    ),
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print result.json instead of the table.")] = False,
) -> None:
    """Train a network so that its answers can be certified (a GloRo Net), and say how many are.

    The accuracy is measured on data that was not trained on (of a built-in set, its test part). Examples:

    * `modelkeep certify train cnn_2c2f --data digits --radius 0.3 --epochs 30`

    * `modelkeep certify train model.safetensors --fine-tune --data test.npz --train train.npz --radius 0.2`
    """
    from rich.console import Console

    from modelkeep.certify import Certify, train_certified
    from modelkeep.certify.guarantees import parse_guarantee
    from modelkeep.core import progress
    from modelkeep.training import Linear, Recipe

    check_out(out)
    trained, examined = _to_train(model, data, options, learned)
    promise = parse_guarantee(guarantee, trained.classes)
    size = radius.of(examined)
    _make_folder(out)
    checkpoint = out / "certify.checkpoint"
    with progress.show():
        train_certified(
            trained,
            training_data(model, data, learned, options, examined, "Training needs"),
            size,
            seed=seed,
            norm=norm,
            guarantee=promise,
            recipe=Recipe(epochs=epochs, batch_size=batch_size, learning_rate=Linear(learning_rate, 0.0)),
            from_scratch=not fine_tune,
            checkpoint=checkpoint,
        )
        found = Certify(radius=size, norm=norm, guarantee=promise)(trained, examined, seed=seed)
    saved = trained.save(out / "certified.safetensors")
    save_beside(saved, examined)
    _write_result(found, out, saved.name, examined.name)
    checkpoint.unlink(missing_ok=True)
    _print_result(found, as_json)
    if as_json:
        return
    console = Console()
    console.print(f"The model: [bold]{saved.resolve()}[/bold]", soft_wrap=True)
    console.print(
        f"For a certificate: modelkeep certify {saved} --data {data} --radius {size:g}", soft_wrap=True, markup=False
    )


def _to_train(model: str, data: str, options: ModelOptions, train: str | None) -> tuple[Model, Data]:
    """The model, new where one of our architectures was named, and the data to measure it on."""
    from modelkeep import Model
    from modelkeep.core.formats.factory import OURS
    from modelkeep.zoo import architectures

    if model not in architectures.names():
        return model_and_data(model, data, options, train)
    said = options.said()
    examined = open_data(data, said, part="test", encoder=learn_encoder(train, said))
    arguments = {"input_shape": list(examined.input_shape), "classes": len(examined.classes)}
    return Model.load(f"{OURS}:{model}", like=examined, device=said.device, arguments=arguments), examined


def _make_folder(out: Path) -> None:
    from modelkeep.core.errors import InputError

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"'{out}' cannot be made: {error.strerror}.") from error


def _write_result(found: Result, out: Path, model_name: str, data_name: str) -> None:
    from modelkeep.report.certification import certification_page

    _make_folder(out)
    certification_page(found, model_name=model_name, data_name=data_name).write(out, "certify.html", "result.json")


def _print_result(found: Result, as_json: bool) -> None:
    from rich.console import Console

    if as_json:
        typer.echo(found.to_json())
    else:
        Console().print(found)


app.command(epilog="Exit code 0: verified; 1: refused; 3: consistent.")(verify)
