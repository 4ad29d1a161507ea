"""A result in the real MLflow and the real Weights & Biases; skipped where those are not installed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from modelkeep.attack import PGD, Attacked
from modelkeep.core.errors import InputError, MissingExtra
from modelkeep.core.results import Result
from modelkeep.report.tracking import log_result, metrics_of, parameters_of
from modelkeep.zoo import datasets, embedded

THEIR_WARNINGS = pytest.mark.filterwarnings("ignore")  # of the trackers and of what they stand on, not of ours


@pytest.fixture(scope="module")
def result() -> Attacked:
    return PGD(radius=0.1, steps=3)(embedded.digits_cnn(), datasets.load("digits", "test").first(20), seed=5)


def test_each_estimate_is_four_metrics(result: Attacked) -> None:
    found = metrics_of(result)
    share = result.robust_accuracy
    assert [found[f"robust_accuracy{end}"] for end in ("", "/low", "/high", "/n")] == [
        share.value, share.low, share.high, 20.0
    ]  # fmt: skip


def test_the_parameters_repeat_it(result: Attacked) -> None:
    found = parameters_of(result)
    assert found["method"] == "attack/pgd"
    assert found["seed"] == "5"
    assert found["settings/radius"] == "0.1"
    assert found["model"] == embedded.digits_cnn().fingerprint()
    assert found["command"] == result.command


@THEIR_WARNINGS
def test_mlflow_keeps_all_of_it(result: Attacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="pip install 'modelkeep[mlflow]' to test it")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    mlflow.set_experiment("modelkeep")
    page = tmp_path / "page.html"
    page.write_text("a page")
    kept = mlflow.get_run(log_result(result, to="mlflow", files=[page]))
    assert mlflow.active_run() is None
    assert kept.data.metrics["attacked/robust_accuracy"] == result.robust_accuracy.value
    assert kept.data.params["attacked/method"] == "attack/pgd"
    folder = Path(mlflow.artifacts.download_artifacts(run_id=kept.info.run_id, artifact_path="modelkeep"))
    again = Result.from_json((folder / "attacked.json").read_text())
    assert isinstance(again, Attacked)
    assert again.robust_accuracy == result.robust_accuracy
    assert (folder / "page.html").read_text() == "a page"


@THEIR_WARNINGS
def test_an_active_run_takes_it_and_stays_open(
    result: Attacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="pip install 'modelkeep[mlflow]' to test it")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    mlflow.set_experiment("modelkeep")
    with mlflow.start_run() as mine:
        assert log_result(result, to="mlflow") == mine.info.run_id
        assert mlflow.active_run() is not None


@THEIR_WARNINGS
def test_wandb_keeps_all_of_it(result: Attacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline: what would be sent is in a file of the run's folder."""
    wandb = pytest.importorskip("wandb", reason="pip install 'modelkeep[wandb]' to test it")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    identity = log_result(result, to="wandb")
    assert wandb.run is None
    (folder,) = (tmp_path / "wandb").glob(f"offline-run-*-{identity}")
    (kept,) = (path.read_bytes() for path in folder.glob("*.wandb"))
    shown = re.search(rb"attacked/robust_accuracy[^a-zA-Z/]*?([0-9.]+)", kept)
    assert shown is not None
    assert float(shown[1]) == result.robust_accuracy.value
    assert b"attack/pgd" in kept
    assert b"modelkeep-attacked" in kept


def test_what_is_missing_is_said(result: Attacked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'modelkeep\[mlflow\]'"):
        log_result(result, to="mlflow")


def test_another_tracker_is_refused(result: Attacked) -> None:
    with pytest.raises(InputError, match="'mlflow' or 'wandb'"):
        log_result(result, to="neptune")  # type: ignore[arg-type]
