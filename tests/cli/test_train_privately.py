"""`modelkeep train-privately`: the private model, its guarantee in its file, the audit, and what is refused."""

from __future__ import annotations

from pathlib import Path

from cli.running import Run
from modelkeep import Model, Result
from modelkeep.privacy import AuditedEpsilon, PrivatelyTrained
from modelkeep.report import PrivacyReport

QUICK = ("--epsilon", "8", "--epochs", "3", "--batch-size", "200", "--learning-rate", "0.1", "--accountant", "rdp")


def test_the_file_of_the_private_model_says_its_epsilon_and_the_privacy_page_finds_it(
    modelkeep: Run, cancer_model: Path, tmp_path: Path
) -> None:
    audit = ("--audit", "one-run", "--canaries", "200")
    run = modelkeep("train-privately", cancer_model, "--data", "breast-cancer", *QUICK, *audit)
    assert run.code == 0, run.err
    out = tmp_path / "modelkeep-out"
    assert {path.name for path in out.iterdir()} == {
        *("index.html", "private.html", "private.json", "audit.json", "private.safetensors"),
        *("private-epsilon.png", "private-training.png", "private-audit.png"),
    }
    found, audited = (Result.from_json((out / name).read_text()) for name in ("private.json", "audit.json"))
    assert isinstance(found, PrivatelyTrained)
    assert isinstance(audited, AuditedEpsilon)
    assert audited.canaries == 200
    assert audited.claimed == found.epsilon
    assert "--epsilon 8.0" in audited.command
    assert found.provenance.seed != 0, "a secret seed was drawn"
    model = Model.load(out / "private.safetensors")
    assert model.card.guarantee is not None
    assert model.card.guarantee.epsilon == found.epsilon <= 8
    run = modelkeep("privacy", out / "private.safetensors", "--members", "breast-cancer", "--non-members",
                    "breast-cancer", "--method", "naive")  # fmt: skip
    assert run.code == 0, run.err
    report = Result.from_json((out / "privacy.json").read_text())
    assert isinstance(report, PrivacyReport)
    assert report.guarantee == model.card.guarantee


def test_it_starts_from_fresh_weights_unless_they_are_public(
    modelkeep: Run, cancer_model: Path, tmp_path: Path
) -> None:
    """With one step of almost no length, the weights are still those that it started with."""
    still = (*QUICK[:-4], "--learning-rate", "1e-12", "--accountant", "rdp", "--seed", "1")
    given = Model.load(cancer_model).module.state_dict()

    def distance(*options: str) -> float:
        save = tmp_path / "private.safetensors"
        run = modelkeep("train-privately", cancer_model, "--data", "breast-cancer", "--save", save, *still, *options)
        assert run.code == 0, run.err
        made = Model.load(save).module.state_dict()
        return max(float((made[name] - value).abs().max()) for name, value in given.items())

    assert distance() > 0.01
    assert distance("--public-weights") < 1e-6


def test_what_makes_no_sense_is_refused(modelkeep: Run, cancer_model: Path) -> None:
    for options, words in (
        (["--trainable", "2"], "--public-weights"),
        (["--save", "x.pt"], ".safetensors"),
        (["--public-weights", "--trainable", "nowhere"], "no parameter has that name"),
        (["--epsilon", "0"], "above 0"),
    ):
        run = modelkeep("train-privately", cancer_model, "--data", "breast-cancer", *options)
        assert run.code != 0
        assert words in run.err
