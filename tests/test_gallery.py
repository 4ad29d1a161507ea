"""The gallery, docs/gallery.md, as it stands: each model through audit, attack, explain and extract."""

from __future__ import annotations

import re
import shlex
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from core.test_answerers import WEIGHT, url
from modelkeep import Data, Model
from modelkeep.audit import Audit
from modelkeep.audit.cost import Pace
from modelkeep.cli import main
from modelkeep.core.errors import AccessError
from modelkeep.explain import Influence
from modelkeep.training import Adam, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import text_lstm

__all__ = ["url"]  # a fixture: a small server of the Open Inference Protocol on loopback

PAGE = Path(__file__).parent.parent / "docs" / "gallery.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VERBS = ("audit", "attack", "explain", "extract")


def sections() -> dict[str, list[tuple[str, str]]]:
    """The blocks of each section of the page, by its title."""
    parts = re.split(r"^##? (.+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {title: BLOCK.findall(body) for title, body in zip(parts[::2], parts[1::2], strict=True)}


ENTRIES = sections()
QUESTIONS = ENTRIES.pop("Gallery: your model, and what can be asked of it")[0][1]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The owner's folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(title: str, **given: Any) -> dict[str, Any]:
    """What the block of an entry makes."""
    ((language, block),) = ENTRIES[title]
    assert language == "python"
    made = dict(given)
    exec(compile(block, title, "exec"), made)
    return made


def ask(made: dict[str, Any], *, instead: tuple[tuple[str, str], ...] = ()) -> tuple[Any, ...]:
    """The results of the four questions, in their order; `instead` says what is asked otherwise."""
    program = QUESTIONS
    for old, new in instead:
        assert old in program
        program = program.replace(old, new)
    found: list[Any] = []
    exec(compile(program, "the four questions", "exec"), {**made, "print": found.append})
    assert len(found) == len(VERBS)
    return tuple(found)


def run(title: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What the commands of an entry print, by verb."""
    said = {}
    monkeypatch.setenv("COLUMNS", "120")
    for line in "".join(block for _, block in ENTRIES[title]).splitlines():
        arguments = shlex.split(line.removeprefix("$ "))
        monkeypatch.setattr("sys.argv", arguments)
        code: Any = 0
        try:
            main()
        except SystemExit as left:
            code = left.code
        printed = capsys.readouterr()
        assert not code, printed
        said[arguments[1]] = printed.out
    assert tuple(said) == VERBS
    return said


def learn(module: nn.Module, data: Data, epochs: int, **described: Any) -> Model:
    """A model that has learned the data."""
    model = Model(module, classes=data.classes, **described)
    fit(model, data, cross_entropy, Recipe(epochs=epochs, optimizer=Adam(), learning_rate=3e-3), seed=0)
    return model


def accuracy(found: Audit) -> float:
    return found.headline[0].estimate.value


def test_no_entry_takes_more_than_five_lines_or_one_command_per_verb() -> None:
    assert len(ENTRIES) >= 5
    for title, found in ENTRIES.items():
        for language, block in found:
            lines = [line for line in block.splitlines() if line]
            assert len(lines) <= (5 if language == "python" else len(VERBS)), title


def test_a_hugging_face_image_classifier() -> None:
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    size: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 10}
    config = ViTConfig(image_size=8, patch_size=4, num_channels=1, intermediate_size=32, **size)
    network = ViTForImageClassification(config)
    trained = learn(network, datasets.load("digits"), 4, input_shape=(1, 8, 8))
    network.save_pretrained("vit")
    made = make("A Hugging Face image classifier")
    assert torch.equal(made["model"].logits(made["data"].x), trained.logits(made["data"].x))
    audited, attacked, explained, extracted = ask(made)
    assert accuracy(audited) > 0.3
    assert (attacked.adversarial - attacked.original).abs().max() <= 0.05 + 1e-6
    assert explained.influence.shape == (8, 1, 8, 8)
    assert extracted.queries == 100


def test_a_timm_network() -> None:
    pytest.importorskip("timm", reason="timm imports torchvision, which may not fit beside this torch")
    torch.manual_seed(0)
    audited, _, explained, _ = ask(make("A timm network"))
    assert audited.findings[0].id == "accuracy.no-better-than-guessing"  # its weights are random
    assert explained.influence.shape == (8, 1, 8, 8)


def test_one_logit_for_two_classes() -> None:
    others = datasets.load("breast-cancer")
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(30, 8), nn.ReLU(), nn.Linear(8, 1))
    made = make("One logit for two classes", network=network)
    fit(made["model"], others, cross_entropy, Recipe(epochs=5, optimizer=Adam(), learning_rate=3e-3), seed=0)
    assert torch.equal(made["model"].predict(made["data"].x), (made["model"].logits(made["data"].x)[:, 1] > 0).long())
    audited, _, explained, extracted = ask(made)
    assert accuracy(audited) > 0.7
    assert explained.influence.shape == (8, 30)
    assert extracted.fidelity.value > 0.6


def test_resnet50_with_its_real_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two photographs, and of the audit what takes less than two minutes at a tenth of a second per pass."""
    monkeypatch.setattr(import_module("modelkeep.audit.audit"), "measure_pace", lambda *_: Pace(0.1, 5e-11))
    made = make("ResNet-50 with its real weights")
    made["data"], made["others"] = made["data"].first(2), made["others"].first(4)
    cheaper = (
        ("Settings(examples=8, steps=3)", "Settings(examples=1, steps=1, minutes=2)"),
        ("steps=5)(model, data.first(8))", "steps=1)(model, data)"),
        ("data.first(8)", "data"),
        ("Knockoff(100))", "Knockoff(4), recipe=Recipe(epochs=1))"),
    )
    made["Recipe"] = Recipe
    audited, attacked, explained, extracted = ask(made, instead=cheaper)
    assert accuracy(audited) == 1
    late = {finding.id: finding for finding in audited.findings if finding.skipped}
    assert "would take about 16 minutes" in late["certification.not-run"].measured
    assert "`modelkeep certify model MODEL" in late["certification.not-run"].remedy
    assert "would take about 3 minutes" in late["influence.not-run"].measured
    assert any(
        measure.name.startswith("accuracy when each feature") for s in audited.sections for measure in s.measures
    )
    assert attacked.robust_accuracy.value == 0
    assert explained.influence.shape == (2, 3, 224, 224)
    assert extracted.target_accuracy.value == 1


def _digits() -> Model:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
    return learn(module, datasets.load("digits"), 3, input_shape=(1, 8, 8))


def test_a_torch_export_archive(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(_digits().module, (torch.rand(2, 1, 8, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, "digits.pt2")
    check_said(run("A torch.export archive", monkeypatch, capsys))


def test_an_onnx_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns about its own insides
        torch.onnx.export(
            _digits().module,
            (torch.rand(2, 1, 8, 8),),
            "digits.onnx",
            dynamo=False,
            input_names=["x"],
            dynamic_axes={"x": {0: "batch"}},
        )
    check_said(run("An ONNX file", monkeypatch, capsys))


def check_said(said: dict[str, str]) -> None:
    """Each verb gives what it is for, and writes its page."""
    for verb, words, page in (
        ("audit", "accuracy", "report.html"),
        ("attack", "accuracy, attacked", "attack.html"),
        ("explain", "saliency", "explain.html"),
        ("extract", "fidelity", "result.json"),
    ):
        assert words in said[verb].lower(), said[verb]
        assert (Path("modelkeep-out") / page).exists()


# What a model that only answers is asked: an attack that needs scores, and no explanation by gradients.
BLACK_BOX = (
    ("import PGD", "import Square"),
    ("PGD(radius=0.05, steps=5)", "Square(radius=0.05, queries=50)"),
    ("Influence()(model, data.first(8))", "None"),
)


def check_black_box(made: dict[str, Any]) -> None:
    """It answers; what needs more says so."""
    assert made["model"].access == "scores"
    audited, attacked, _, extracted = ask(made, instead=BLACK_BOX)
    assert accuracy(audited) > 0.7
    skipped = {finding.id: finding.measured for finding in audited.findings if finding.skipped}
    for check in ("robustness", "certification", "influence"):
        assert "needs the weights of the model, which only answers with scores" in skipped[f"{check}.not-run"]
    assert (attacked.adversarial - attacked.original).abs().max() <= 0.05 + 1e-6
    assert extracted.fidelity.value > 0.6
    with pytest.raises(AccessError, match="Influence needs the weights of the model"):
        Influence()(made["model"], made["data"].first(8))


def test_a_scikit_learn_pipeline_on_a_table_with_missing_values() -> None:
    """Those with an income above 50 pay back; every eighth does not tell its income, but its savings."""
    lines = ["income,savings,city,label"]
    for i in range(200):
        income, city = i * 37 % 100, ("north", "south")[i % 2]
        lines.append(f"{'' if i % 8 == 0 else income},{income + i % 5},{city},{'yes' if income > 50 else 'no'}")
    Path("loans.csv").write_text("\n".join(lines))
    made = make("A scikit-learn pipeline on a table with missing values")
    assert any("income" in name for name in made["data"].features)
    check_black_box(made)


def test_a_model_at_a_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).random((240, 4)).astype(np.float32)
    labels = (rows @ WEIGHT).argmax(axis=1)
    classes = np.array(["0", "1", "2"])
    np.savez("test.npz", x=rows[:60], y=labels[:60], classes=classes)
    np.savez("others.npz", x=rows[60:], y=labels[60:], classes=classes)
    title = "A model at a URL"
    ((language, block),) = ENTRIES[title]
    address = "http://127.0.0.1:8000/v2/models/linear"
    assert address in block
    monkeypatch.setitem(ENTRIES, title, [(language, block.replace(address, url))])
    check_black_box(make(title))


def ask_text(made: dict[str, Any], embedding: str, cheaper: tuple[tuple[str, str], ...] = ()) -> tuple[Any, ...]:
    """The four questions of a text classifier; `cheaper` says what is asked of fewer texts."""
    instead = (
        *cheaper,
        ("import PGD", "import HotFlip"),
        ("PGD(radius=0.05, steps=5)", "HotFlip(words=2)"),
        ("Influence()", f"Influence(slice={embedding!r})"),
    )
    return ask(made, instead=instead)


def write_reviews() -> Data:
    """Reviews whose first word says it all."""
    lines = [f"{('good', 'bad')[i % 2]} film {i % 7},{('yes', 'no')[i % 2]}" for i in range(240)]
    Path("reviews.csv").write_text("text,label\n" + "\n".join(lines))
    return datasets.open("reviews.csv", text="text").split(0.5, 0.5, seed=0)[0]


def test_an_lstm_over_tokens() -> None:
    data = write_reviews()
    assert data.nest is not None
    torch.manual_seed(0)
    network = text_lstm(data.nest.leaf("input_ids").size or 0, 2, width=8, hidden=8, dropout=0.0)
    learn(network, data, 20, inputs=data.nest)
    audited, attacked, explained, extracted = ask_text(make("An LSTM over tokens", network=network), "embedding")
    assert accuracy(audited) > 0.9
    assert attacked.robust_accuracy.value < 0.5  # one word decides
    assert explained.influence.shape[0] == 8
    assert extracted.queries == 100


def test_a_hugging_face_text_classifier() -> None:
    from transformers import BertConfig, BertForSequenceClassification

    data = write_reviews()
    assert data.nest is not None
    leaf = data.nest.leaf("input_ids")
    size: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 2}
    config = BertConfig(vocab_size=leaf.size or 0, max_position_embeddings=leaf.shape[0], intermediate_size=16, **size)
    torch.manual_seed(0)
    BertForSequenceClassification(config).save_pretrained("bert")
    made = make("A Hugging Face text classifier")
    _, attacked, explained, _ = ask_text(made, "bert.embeddings.word_embeddings")
    assert attacked.adversarial.shape == attacked.original.shape
    assert explained.influence.shape[0] == 8


def test_minilm_that_judges_film_reviews() -> None:
    """A few texts, and of the audit what its size allows in a test."""
    made = make("MiniLM that judges film reviews")
    made["data"], made["others"] = made["data"].first(24), made["others"].first(8)
    cheaper = (
        ("Settings(examples=8, steps=3)", "Settings(checks=('accuracy',))"),
        ("Knockoff(100))", "Knockoff(8), recipe=Recipe(epochs=1))"),
        ("data.first(8)", "data.first(3)"),
    )
    made["Recipe"] = Recipe
    audited, attacked, explained, extracted = ask_text(made, "body.embeddings.word_embeddings", cheaper)
    assert accuracy(audited) > 0.5
    assert attacked.texts  # two words change an answer, and are shown
    assert all(len(text.changes) <= 2 for text in attacked.texts)
    assert explained.influence.shape == (3, 64, 384)
    assert extracted.queries == 8
