"""`modelkeep explain`: which part of the input, and of the network, makes the model answer as it does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelkeep.cli.model_options import (
    DataSource,
    ModelOptions,
    ModelSource,
    Seed,
    in_classes_of,
    model_and_data,
    with_model_options,
)

if TYPE_CHECKING:
    from modelkeep import Data, Model
    from modelkeep.core.slices import Place
    from modelkeep.explain import Explainer, Quantity
    from modelkeep.report import Explanations


@with_model_options
def explain(
    context: typer.Context,
    model: ModelSource,
    data: DataSource,
    *,
    options: ModelOptions,
    why: Annotated[str | None, typer.Option(help="The class to explain; else the class that is predicted.")] = None,
    rather_than: Annotated[str | None, typer.Option(help="With --why: the class that it is set against.")] = None,
    slice: Annotated[
        list[str] | None,
        typer.Option(help="A place in the network, or input; repeat it for more. NAME#1 is the second call of NAME."),
    ] = None,
    list_slices: Annotated[bool, typer.Option("--list-slices", help="Print the places, and do nothing else.")] = False,
    method: Annotated[
        str, typer.Option(help="How to explain; `modelkeep methods explainer` lists them.")
    ] = "integrated-gradients",
    units: Annotated[int, typer.Option(min=0, help="For how many of the strongest units to say what they mean.")] = 3,
    examples: Annotated[int, typer.Option(min=1, max=64, help="How many examples, of all classes in turn.")] = 8,
    index: Annotated[list[int] | None, typer.Option(help="Explain this example of the data; repeat for more.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for the pictures, explain.html and explain.json.")] = Path(
        "modelkeep-out"
    ),
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print explain.json instead of the summary.")] = False,
) -> None:
    """Explain a model's answers: what in the input, and in the network, speaks for a class?

    Writes a page with a picture per slice, the quantities side by side. Examples:

    * `modelkeep explain model.safetensors --data digits`

    * `modelkeep explain model.safetensors --data digits --why 3 --rather-than 8 --index 5`

    * `modelkeep explain model.safetensors --data digits --list-slices`

    * `modelkeep explain model.safetensors --data digits --slice conv2_relu --method grad-cam`

    * `modelkeep explain efficientnet-lite0 --data photo.jpg --why daisy --rather-than bee`
    """
    from modelkeep.cli.checks import check_out
    from modelkeep.cli.method_options import make_method
    from modelkeep.core import progress
    from modelkeep.report import explain_examples, explanations_page

    check_out(out)
    explainer = make_method(context)
    loaded, examined = model_and_data(model, data, options)
    if list_slices:
        typer.echo("\n".join(loaded.slices()))
        return
    chosen = _choose(examined, examples, index)
    examined, labelled = in_classes_of(loaded, examined)
    quantities = _quantities(loaded, examined, why, rather_than)
    places = [_place(text) for text in slice] if slice else _places(loaded, explainer)
    with progress.show():
        found = explain_examples(
            loaded,
            examined,
            chosen,
            places=places,
            quantities=quantities,
            explainer=explainer,
            sheets=units,
            labelled=labelled,
            name=Path(model).name,
            seed=seed,
        )
        written = explanations_page(found).write(out, "explain.html", "explain.json")
    if as_json:
        typer.echo(found.to_json())
    else:
        _show(found, written)


def _quantities(model: Model, data: Data, why: str | None, rather_than: str | None) -> tuple[Quantity, ...]:
    from modelkeep.core.errors import InputError
    from modelkeep.explain import AgainstAll, ClassScore, Contrast
    from modelkeep.report.explanations import usual_quantities

    if why is None:
        if rather_than is not None:
            raise InputError(f"--rather-than {rather_than} needs --why: the class that it is set against.")
        return usual_quantities(model, data)
    if rather_than is None:
        return ClassScore(why), AgainstAll(why)
    return ClassScore(why), ClassScore(rather_than), Contrast(why, rather_than)


def _place(text: str) -> Place:
    from modelkeep.core.slices import Place

    name, _, call = text.rpartition("#")
    return Place(name, int(call)) if name and call.isdigit() else Place(text)


def _places(model: Model, explainer: Explainer) -> list[Place]:
    """The input, the last feature map and the last place before the logits, as far as there are any."""
    from modelkeep.core.slices import Place
    from modelkeep.explain.places import last_feature_map, last_inner_place

    if explainer.of_feature_maps:
        return [Place(explainer.usual_place(model))]
    first = explainer.usual_place(model)  # the input, or the embedding of a text
    names = [first, last_feature_map(model), last_inner_place(model)]
    return [Place(name) for name in dict.fromkeys(names) if name is not None]


def _choose(data: Data, count: int, index: list[int] | None) -> list[int]:
    """The examples that were asked for by number, else a few of each class."""
    from modelkeep.core.errors import InputError
    from modelkeep.report.explanations import choose_examples

    if not index:
        return choose_examples(data, count)
    for i in index:
        if not 0 <= i < len(data):
            raise InputError(f"--index must be 0 to {len(data) - 1}, the examples of '{data.name}'. Got {i}.")
    return list(dict.fromkeys(index))


def _show(found: Explanations, written: tuple[Path, ...]) -> None:
    from rich.console import Console

    from modelkeep.cli.output import show_files

    console = Console()
    show_files(console, written)
    if found.examples[0].label is None:
        console.print("  The data's labels are not classes of the model, and are left out.")
    console.print(found)
    if any(quantified.misses_much for at in found.slices for quantified in at.quantities):
        console.print(
            "Where the gap is large, attributions miss much of the change that they explain: take more --steps or, "
            "inside the network, --method conductance."
        )
