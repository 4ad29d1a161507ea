"""`modelkeep extract`: steal a model through its answers, and see what the copy is worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from modelkeep.cli.ending import ExitCode
from modelkeep.cli.method_options import (
    Choice,
    chosen_method,
    given_settings,
    list_methods,
    make_method,
    method_command,
)
from modelkeep.cli.model_options import (
    DataSource,
    ModelOptions,
    Seed,
    model_and_data,
    open_data,
    save_beside,
    with_model_options,
)
from modelkeep.cli.tokenizer_files import tokenizer_of_width

if TYPE_CHECKING:
    from modelkeep import Data, Model
    from modelkeep.attack.transfer.proxy import Architecture
    from modelkeep.extract.curve import FidelityCurve
    from modelkeep.extract.extraction import Extraction
    from modelkeep.extract.remote import Remote
    from modelkeep.extract.target import Returns, Target
    from modelkeep.report import Page


ExtractCommand = method_command(
    "extraction",
    "naive",
    selectors=("--method",),
    more=[Choice("query-strategy", ("--strategy",), "knockoff"), Choice("guard", ("--defence",))],
)


@with_model_options
def extract(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(help="A model file as for `modelkeep attack`, or the URL of a model: http://…/v2/models/NAME"),
    ] = "",
    data: DataSource = "",
    *,
    options: ModelOptions,
    queries_from: Annotated[
        str | None, typer.Option(help="What to ask about: a set or your files. Default: the training part of --data.")
    ] = None,
    queries: Annotated[int, typer.Option(min=4, help="How many questions to ask.")] = 1000,
    strategy: Annotated[str, typer.Option(help="How to choose them; --list shows all.")] = "knockoff",
    method: Annotated[str, typer.Option(help="What to make of the answers; --list shows all.")] = "naive",
    defence: Annotated[
        str | None, typer.Option(help="The guard before the model; of a URL, what the thief assumes. See --list.")
    ] = None,
    architecture: Annotated[str | None, typer.Option(help="Of the copy, such as small_resnet; default: small.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="How often the training data is seen.")] = None,
    examples: Annotated[
        int | None, typer.Option(min=1, help="How many examples of --data judge the copy, drawn by the seed; else all.")
    ] = None,
    curve: Annotated[bool, typer.Option(help="Also measure copies of fewer queries, and draw the curve.")] = True,
    price: Annotated[float | None, typer.Option(help="What 1,000 queries cost.")] = None,
    key_file: Annotated[Path | None, typer.Option(help="For a URL: a file with the API key (chmod 600).")] = None,
    rate: Annotated[float | None, typer.Option(help="For a URL: the most queries per second.")] = None,
    returns: Annotated[
        Literal["probabilities", "logits"], typer.Option(help="For a URL: what its answers are.")
    ] = "probabilities",
    out: Annotated[
        Path,
        typer.Option(help="The folder for extract.html, result.json, curve.json, substitute.safetensors, pictures."),
    ] = Path("modelkeep-out"),
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print result.json instead of the summary.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="Print strategies, attacks, defences; do no more.")] = False,
) -> None:
    """Steal a model as a thief would: ask it, train a copy on the answers, and measure how alike they are.

    Without --epochs a copy is trained until more training does not help.

    A target at a URL must be yours, or you must be allowed to test it. Its answers are kept in the folder: after
    Ctrl-C the same command goes on with them. Examples:

    * `modelkeep extract model.safetensors --data digits`

    * `modelkeep extract model.safetensors --data digits --defence modelguard-s --epsilon 1 --method partial-bayes`

    * `modelkeep extract http://127.0.0.1:8000/v2/models/model --data digits --key-file key --rate 100`

    * `modelkeep extract --list`
    """
    from dataclasses import replace

    from modelkeep.attack.transfer.proxy import RECIPE
    from modelkeep.cli.checks import check_out
    from modelkeep.core import progress
    from modelkeep.core.errors import InputError
    from modelkeep.core.method import options_of
    from modelkeep.extract.extraction import Extract
    from modelkeep.extract.target import Guarded, open_target
    from modelkeep.report import extraction_page

    if show_list:
        _list()
        return
    if not target or not data:
        raise InputError("Name the target and test data for it: modelkeep extract TARGET --data DATA. See --list.")
    if queries_from is None and Path(data).expanduser().exists():
        raise InputError("Name with --queries-from what to ask about: never the data that the copy is judged on.")
    check_out(out)
    far = target.startswith(("http://", "https://"))
    guard = None if defence is None else make_method(context, "guard")
    draws_table = any(option.name == "means" for option in options_of(chosen_method(context)))
    around: dict[str, Any] = (
        {"means": "answers"} if far and draws_table and "means" not in given_settings(context) else {}
    )
    recipe = None if epochs is None else replace(RECIPE, epochs=epochs)
    said = options.description(target)
    clean: Model | None = None
    if far:
        typer.echo("Ask only a target that is yours, or that you are allowed to test.", err=True)
        remote = _remote(target, key_file, rate, returns, out)
        tokenizer = tokenizer_of_width(said, remote.input_shape)
        test = open_data(data, said, part="test", shape=remote.input_shape, tokenizer=tokenizer)
    else:
        clean, test = model_and_data(target, data, options)
        clean.require_fit(test)

    test = test if examples is None else test.sample(min(examples, len(test)), seed)

    def fresh() -> Target:
        """The target; a local one as it is before the first query."""
        if clean is None:
            return remote
        return open_target(clean) if guard is None else Guarded(clean, guard)

    shape = fresh().input_shape
    pool = open_data(queries_from or data, said, part="train", shape=shape, tokenizer=test.tokenizer)
    count = min(queries, len(pool))
    steal = Extract(
        pool,
        make_method(context, "query-strategy", queries=count),
        make_method(context, **around),
        architecture=_architecture(architecture),
        recipe=recipe,
        defence=guard,
        clean=clean,
        price=price,
    )
    try:
        with progress.show():
            found = steal(fresh(), test, seed=seed)
            drawn = None
            if curve:
                budgets = [max(2, count // part) for part in (8, 4, 2, 1)]
                drawn = steal.curve(fresh(), test, budgets=budgets, seed=seed)
            page = extraction_page(found, drawn, test, fresh(), model_name=Path(target).name)
    except KeyboardInterrupt:
        kept = f" The answers are kept in {out}; the same command goes on with them." if far else ""
        typer.echo(f"Stopped.{kept}", err=True)
        raise typer.Exit(ExitCode.STOPPED) from None
    written = _write(found, page, drawn, out)
    save_beside(out / "substitute.safetensors", test)
    if as_json:
        typer.echo(found.to_json())
        return
    _show(found, drawn, test, written)


def _remote(url: str, key_file: Path | None, rate: float | None, returns: Returns, out: Path) -> Remote:
    from modelkeep.core.setting_files import require_private
    from modelkeep.extract.remote import Remote

    key = None
    if key_file is not None:
        require_private(key_file, "The key")
        key = key_file.read_text(encoding="utf-8").strip()
    return Remote(url, key=key, rate=rate, returns=returns, folder=out / ".answers")


def _architecture(name: str | None) -> Architecture | None:
    from modelkeep.core.errors import InputError, did_you_mean
    from modelkeep.zoo import architectures

    if name is not None and name not in architectures.names():
        meant = did_you_mean(name, architectures.names())
        raise InputError(f"There is no architecture '{name}'.{meant} There are: {', '.join(architectures.names())}.")
    return None if name is None else getattr(architectures, name)


def _write(found: Extraction, page: Page, drawn: FidelityCurve | None, out: Path) -> list[Path]:
    """The files, each whole or not at all."""
    others = {} if drawn is None else {"curve.json": drawn.for_dashboard()}
    written = page.write(out, "extract.html", "result.json", others)
    return [*written, found.substitute.save(out / "substitute.safetensors")]


def _show(found: Extraction, drawn: FidelityCurve | None, test: Data, written: list[Path]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    constant = float(test.y.bincount().max()) / len(test)
    cost = "" if found.cost is None else f" for {found.cost:,.2f}"
    console.print(
        f"\nWith [bold]{found.queries:,}[/bold] queries{cost} the copy answers [bold]{found.fidelity.value:.1%}[/bold] "
        f"of '{test.name}' as the target does; the most frequent label alone would be right on {constant:.0%}.",
    )
    console.print(found)
    if drawn is not None:
        console.print("fidelity against queries")
        for queries, fidelity in zip(drawn.queries, drawn.fidelity, strict=True):
            bar = "█" * round(40 * fidelity.value)
            console.print(f"{queries:>9,}  [cyan]{bar:<40}[/cyan] {fidelity.value:6.1%}")
    console.print("written: " + ", ".join(str(path) for path in written), soft_wrap=True, markup=False)


def _list() -> None:
    from modelkeep.cli.study import print_table

    families = {"--strategy": "query-strategy", "--method": "extraction", "--defence": "guard"}
    rows = [
        [option, name, does, paper]
        for option, family in families.items()
        for name, _, does, paper in list_methods(family)
    ]
    print_table(rows, ["option", "name", "what it does", "paper"])
