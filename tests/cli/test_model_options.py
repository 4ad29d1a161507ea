"""The options that describe a model: read the same by every verb, and refused in a sentence where they are wrong."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from torch import nn
from torch.export import Dim

from cli.running import Run
from modelkeep import Model, cli
from modelkeep.cli.model_options import ModelOptions, learn_encoder, model_and_data
from modelkeep.core.errors import InputError

VERBS = ["audit", "attack", "explain", "harden", "bias", "extract", "complete", "certify model", "certify train",
         "govern advise"]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_takes_a_model_has_every_option(verb: str) -> None:
    command: Any = typer.main.get_command(cli.app)
    for word in verb.split():
        command = command.commands[word]
    options = {name for each in command.params for name in each.opts}
    assert {f"--{field.name.replace('_', '-')}" for field in fields(ModelOptions)} <= options


def test_text_becomes_the_card(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("cat\ndog\n")
    given = ModelOptions(
        classes=str(names), input_shape="1,2,3", mean="0.5", std="0.25", bounds="-1,1", arguments='{"width": 3}'
    )
    assert given.said().card() == {
        "classes": ("cat", "dog"),
        "input_shape": (1, 2, 3),
        "preprocessing": {"mean": (0.5,), "std": (0.25,)},
        "bounds": (-1.0, 1.0),
        "arguments": {"width": 3},
    }
    assert ModelOptions(classes="a, b", bounds="none").said().card() == {"classes": ("a", "b"), "bounds": None}
    assert ModelOptions(classes="12").said().card() == {"classes": 12}
    assert ModelOptions().said().card() == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_shape": "3x32"}, "--input-shape must be numbers with commas between, such as 3,32,32. Got '3x32'."),
        ({"mean": "0.5"}, "--mean and --std belong together"),
        ({"bounds": "1"}, "--bounds must be two numbers"),
        ({"arguments": "width=3"}, "--arguments must be JSON"),
        ({"arguments": "[3]"}, "--arguments must be a JSON object"),
    ],
)
def test_mistakes_name_the_option(given: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        ModelOptions(**given).said()  # type: ignore[arg-type]
    assert message in str(refused.value)


def test_a_verb_reads_model_and_table_as_the_options_say(modelkeep: Run, tmp_path: Path) -> None:
    (tmp_path / "lines.py").write_text(
        "import torch\n"
        "def network(sign):\n"
        "    module = torch.nn.Linear(1, 2)\n"
        "    module.weight.data = torch.tensor([[-sign], [sign]])\n"
        "    module.bias.data.zero_()\n"
        "    return module\n"
    )
    rows = "\n".join(f"{i},{i - 9.5},{'big' if i > 9 else 'small'}" for i in range(20))
    (tmp_path / "table.csv").write_text(f"id,height,size\n{rows}\n,1.5,big\n")
    told = ["--arguments", '{"sign": -1.0}', "--classes", "big,small", "--bounds", "none"]
    told += ["--label", "size", "--ignore", "id", "--missing", "drop"]
    run = modelkeep("audit", "lines:network", "--data", "table.csv", "--examples", "8", *told)
    assert run.code == 0, run.err
    assert "100.0%" in (tmp_path / "modelkeep-out" / "report.html").read_text()


def test_gaps_are_filled_from_the_training_table_and_not_from_the_one_that_is_examined(tmp_path: Path) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("a,b,label\n1,1,no\n1,2,yes\n1,3,no\n,4,yes\n")
    test.write_text("a,b,label\n9,1,no\n9,2,yes\n,3,no\n")
    options = ModelOptions(missing="fill")
    said = options.said()
    learned = learn_encoder(str(train), said)
    assert learned is not None
    model = Model(nn.Linear(len(learned.features), 2), input_shape=(len(learned.features),), classes=("no", "yes"))
    torch.export.save(
        torch.export.export(model.module, (torch.rand(2, *model.input_shape),), dynamic_shapes=({0: Dim("n")},)),
        tmp_path / "model.pt2",
    )
    _, examined = model_and_data(str(tmp_path / "model.pt2"), str(test), options, str(train))
    column = (examined.features or ()).index("a")
    assert examined.x[2, column] == 1.0, "the mean of the training table; that of the examined one is 9"
