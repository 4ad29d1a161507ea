"""`modelkeep convert`: what it writes loads by itself; what it cannot convert it says how to."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from cli.running import Run
from modelkeep import Model

FACTORY = """
from torch import nn

def network(width=6):
    return nn.Sequential(nn.Flatten(), nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 3))
"""


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """The state dict of a network, whose factory stands beside it."""
    (tmp_path / "converted_network.py").write_text(FACTORY)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.ReLU(), nn.Linear(6, 3))
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    return tmp_path / "weights.pt"


def test_a_state_dict_and_the_command_that_is_printed(modelkeep: Run, weights: Path, tmp_path: Path) -> None:
    told = ["--factory", "converted_network:network", "--input-shape", "1,4,4", "--classes", "a,b,c"]
    run = modelkeep("convert", "weights.pt", *told)
    assert run.code == 0, run.err
    assert "written: weights.safetensors" in run.out
    command = re.search(r"modelkeep (audit .*) --data DATA", run.out)
    assert command is not None
    run = modelkeep("describe", *command[1].split()[1:], "--json")
    assert run.code == 0, run.err
    found = json.loads(run.out)
    assert found["known"]["classes"]["value"] == ["a", "b", "c"]
    assert found["answers"] == [2, 3]
    assert found["warnings"] == []


def test_a_program_keeps_its_names_in_a_file_beside_it(modelkeep: Run, weights: Path, tmp_path: Path) -> None:
    told = ["--factory", "converted_network:network", "--input-shape", "1,4,4", "--classes", "a,b,c"]
    run = modelkeep("convert", "weights.pt", *told, "--mean", "0.5", "--std", "0.25", "--out", "m.pt2", "--json")
    assert run.code == 0, run.err
    assert json.loads(run.out)["written"] == ["m.pt2", "m.toml"]
    model = Model.load(tmp_path / "m.pt2")
    assert model.classes == ("a", "b", "c")
    assert model.card.preprocessing.mean == (0.5,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["weights.pt"], "--factory package.module:factory"),
        (["weights.pt", "--out", "m.onnx"], "as a .safetensors or .pt2 file"),
        (["weights.pt", "--factory", "converted_network:network"], "input"),
        (["nothing.pt"], "There is no file 'nothing.pt'"),
    ],
)
def test_mistakes_are_sentences(arguments: list[str], message: str, modelkeep: Run, weights: Path) -> None:
    run = modelkeep("convert", *arguments)
    assert run.code != 0
    assert message in run.err


def test_a_hugging_face_folder_in_one_command(modelkeep: Run, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.ViTConfig(**sizes, image_size=16, patch_size=8, id2label={0: "cat", 1: "dog"})
    torch.manual_seed(0)
    made = transformers.ViTForImageClassification(config).eval()
    made.save_pretrained(tmp_path / "vit")
    run = modelkeep("convert", "vit")
    assert run.code == 0, run.err
    x = torch.rand(3, 3, 16, 16)
    for source in (tmp_path / "vit", tmp_path / "vit.safetensors"):
        model = Model.load(source)
        assert model.classes == ("cat", "dog")
        torch.testing.assert_close(model.logits(x), made(x).logits.detach())
    assert Model.load(tmp_path / "vit").fingerprint() == Model.load(tmp_path / "vit.safetensors").fingerprint()
