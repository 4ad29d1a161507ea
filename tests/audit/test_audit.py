"""The audit finds what was planted, stays quiet where nothing was, and its report opens in a real browser."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from browser import chromium
from modelkeep import Data, Estimate, Model, ModelKeepError, Result
from modelkeep.audit import Audit, Finding, Section, Settings, audit, audit_page
from modelkeep.audit.accuracy import CheckAccuracy
from modelkeep.audit.influence import CheckInfluence
from modelkeep.audit.settings import ORDER
from modelkeep.core import examples, progress
from modelkeep.core.errors import InputError
from modelkeep.core.registry import declarations
from modelkeep.explain.places import last_inner_place
from modelkeep.report.measure import percent
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn

SMALL = Settings(examples=40, steps=10, radii=(0.03, 0.1, 0.2))
# What takes longest has tests of its own.
FEWER = replace(SMALL, checks=tuple(name for name in ORDER if name not in ("extraction", "backdoor", "inversion")))


@pytest.fixture(scope="module")
def subject(trained_cnn: Model, digits: tuple[Data, Data]) -> tuple[Model, Data]:
    """A network that has really learned digits, and others to judge it by."""
    return trained_cnn, digits[1]


@pytest.fixture(scope="module")
def report(subject: tuple[Model, Data]) -> Audit:
    return audit(*subject, SMALL, seed=0)


def test_it_measures_what_others_measure(subject: tuple[Model, Data], report: Audit) -> None:
    model, data = subject
    right = int((model.predict(data.x) == data.y).sum())
    assert report.headline[0].estimate == Estimate.rate(right, len(data))
    assert report.headline[1].estimate.value < report.headline[0].estimate.value


def test_the_checks_come_from_the_registry_with_the_settings_that_they_have() -> None:
    checks = Settings(examples=7, slice="linear1").list_checks()
    first = ["accuracy", "robustness", "certification", "influence", "shortcuts", "amplification", "membership"]
    assert [name for name in checks if name in first] == first
    assert set(checks) == set(declarations("check"))
    assert checks["accuracy"] == CheckAccuracy()
    assert checks["influence"] == CheckInfluence(examples=7, slice="linear1")
    assert list(Settings(checks=("shortcuts", "accuracy")).list_checks()) == ["shortcuts", "accuracy"]
    with pytest.raises(InputError, match=r"There is no check 'accurate'\. Did you mean 'accuracy'"):
        Settings(checks=("accurate",)).list_checks()


def test_an_audit_says_how_to_repeat_it(report: Audit) -> None:
    assert report.python == ("audit(model, data, Settings(examples=40, radii=(0.03, 0.1, 0.2), steps=10), seed=0)")
    assert report.command == "", "radii can be given in Python only"
    assert report.python in audit_page(report).render()


def test_findings_come_most_important_first(report: Audit) -> None:
    order = [finding.severity for finding in report.findings]
    assert order == sorted(order, key=["high", "medium", "low", "unclear", "good"].index)
    assert {finding.id for finding in report.findings} >= {"robustness.adversarial-examples"}
    assert all(f.measured and f.meaning and f.remedy for f in report.findings)


def test_the_same_seed_gives_the_same_audit(subject: tuple[Model, Data], report: Audit) -> None:
    again = audit(*subject, SMALL, seed=0)
    assert _without_time(again) == _without_time(report)
    assert [s.pictures for s in again.sections] == [s.pictures for s in report.sections]


def _without_time(report: Audit) -> str:
    return re.sub(r'"(seconds|estimated|took)": [\d.e-]+|"date": "[^"]+"', "", report.to_json())


def test_json_comes_back_with_all_that_the_page_shows(report: Audit) -> None:
    back = Result.from_json(report.to_json())
    assert isinstance(back, Audit)
    assert back.findings == report.findings
    assert audit_page(back).render() == audit_page(report).render()


def test_an_untrained_model_is_called_out() -> None:
    torch.manual_seed(0)
    model = Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=10)
    found = audit(model, datasets.load("digits", "test"), FEWER, seed=0)
    assert found.findings[0].id == "accuracy.no-better-than-guessing"


def test_too_few_examples_are_unclear_and_never_good() -> None:
    """A perfect and unmovable model, seen on six examples."""

    class Sure(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([1 - 2 * x[:, 0], 2 * x[:, 0] - 1], dim=1)

    def severities(n: int) -> dict[str, str]:
        y = torch.arange(n) % 2
        x = torch.stack([y.float(), torch.rand(n, generator=torch.Generator().manual_seed(0))], dim=1)
        model = Model(Sure(), input_shape=(2,), classes=("a", "b"))
        checks = ("accuracy", "robustness", "certification", "influence", "amplification", "shortcuts")
        settings = Settings(steps=3, radii=(0.01, 0.03, 0.1), checks=checks)
        found = audit(model, Data(x, y, ("a", "b")), settings, seed=0)
        return {finding.id.split(".")[0]: finding.severity for finding in found.findings}

    unclear = dict.fromkeys(("accuracy", "robustness", "certification", "bias", "shortcuts"), "unclear")
    assert severities(4) == unclear
    assert severities(8) == unclear
    good = dict.fromkeys(("accuracy", "robustness", "bias"), "good")
    # One feature decides; and picking one out has no rule, so that nothing can be proved.
    assert severities(100) == {**good, "shortcuts": "low", "certification": "unclear"}


def test_a_weak_class_is_named() -> None:
    """Right on everything but 'b', of which it misses two thirds."""

    class Chooses(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([-x[:, 0], x[:, 0] - 0.66], dim=1)

    y = torch.arange(600) % 2
    x = torch.where(y == 0, 0.0, torch.linspace(0, 1, 600))[:, None].expand(-1, 3).contiguous()
    model = Model(Chooses(), input_shape=(3,), classes=("a", "b"))
    found = audit(model, Data(x, y, ("a", "b")), replace(FEWER, steps=2), seed=0)
    weak = next(f for f in found.findings if f.id == "accuracy.weak-class")
    assert "'b'" in weak.title


def test_influence_on_inputs_that_never_vary_is_found() -> None:
    """Feature 0 tells the class; feature 1 is always 0, and the model leans on it three times as much."""

    class Leans(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            score = x[:, 0] - 0.5 + 3 * x[:, 1]
            return torch.stack([-score, score], dim=1)

    x = torch.stack([torch.arange(200) % 2, torch.zeros(200)], dim=1).float()
    model = Model(Leans(), input_shape=(2,), classes=("a", "b"))
    found = audit(model, Data(x, torch.arange(200) % 2, ("a", "b")), FEWER, seed=0)
    leaning = next(f for f in found.findings if f.id == "influence.never-varying-features")
    assert "1 of 2 input features never vary" in leaning.measured
    assert "75.0 %" in leaning.measured


def test_a_table_is_attacked_in_units_of_each_features_spread() -> None:
    """The closed form: a linear model in features of very different sizes, of which each may move by 0.2 σ."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.tensor([1e-3, 1.0, 1e3])
    x = torch.randn(400, 3, generator=generator) * spread + 5 * spread
    model = Model(nn.Linear(3, 2), input_shape=(3,), classes=("a", "b"), bounds=None)
    with torch.no_grad():
        model.module.weight.copy_(torch.stack([1 / spread, -1 / spread]))  # type: ignore[operator]
        model.module.bias.copy_(torch.tensor([-15.0, 15.0]))  # type: ignore[operator]
    settings = Settings(examples=400, radii=(0.1, 0.2, 0.3), checks=("accuracy", "robustness"))
    found = audit(model, Data(x, model.predict(x), ("a", "b")), settings, seed=0)
    margin = ((x / spread).sum(dim=1) - 15).abs()
    reach = 0.2 * (x.std(dim=0) / spread).sum()
    assert found.headline[1].name == "accuracy when each feature may change by up to 20 % of its spread"
    assert found.headline[1].estimate.value == pytest.approx(float((margin > reach).double().mean()), abs=0.01)


def test_hidden_gradients_are_reported_as_such() -> None:
    class Rounded(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            score = (x.mean(dim=1) > 0.5).float() + 0 * x.sum(dim=1)
            return torch.stack([1 - score, 2 * score], dim=1)

    x = torch.rand(200, 4, generator=torch.Generator().manual_seed(0))
    model = Model(Rounded(), input_shape=(4,), classes=("a", "b"))
    found = audit(model, Data(x, model.predict(x), ("a", "b")), FEWER, seed=0)
    assert any(f.id in ("robustness.masked-gradients", "robustness.attack-impaired") for f in found.findings)
    assert all(f.status != "pass" for f in found.findings if f.id.startswith("robustness."))


def test_the_inner_place_is_the_last_before_the_logits(subject: tuple[Model, Data]) -> None:
    assert last_inner_place(subject[0]) == "linear1_relu"
    assert last_inner_place(Model(nn.Linear(3, 2), input_shape=(3,), classes=2)) is None


def test_names_from_outside_cannot_run_in_the_report() -> None:
    evil = "<script>document.title='stolen'</script>"
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    model = Model(nn.Linear(3, 2), input_shape=(3,), classes=(evil, "b"))
    page = audit_page(audit(model, Data(x, model.predict(x), (evil, "b"), name=evil), replace(FEWER, steps=2), seed=0))
    assert "<script>" not in page.render()
    assert "&lt;script&gt;" in page.render()


_PICTURES = """
return [...document.querySelectorAll("figure img, figure [role=img]")].map(
  i => [i.tagName !== "IMG" || i.complete, i.naturalWidth ?? i.firstElementChild.viewBox.baseVal.width,
        i.alt || i.getAttribute("aria-label")])
"""


def test_the_report_opens_offline_and_reads_well(report: Audit, tmp_path: Path) -> None:
    page, record = audit_page(report).write(tmp_path / "out", "report.html", "run.json")
    assert json.loads(record.read_text())["kind"] == "audit"
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page.read_text()), "the report must need no other file"
    with chromium(tmp_path / "profile") as browser:
        browser.get(page.as_uri())
        assert browser.title.startswith("ModelKeep: Sequential on digits")
        sizes = browser.execute_script(_PICTURES)
        explained = 2  # the map at the input, and the sheet of units
        evidence = sum(len(finding.evidence) for finding in report.findings)
        assert len(sizes) == sum(len(section.pictures) for section in report.sections) + explained + evidence
        assert all(complete and width > 100 and alt for complete, width, alt in sizes)
        titles = browser.execute_script("return [...document.querySelectorAll('.finding h3')].map(h => h.innerText)")
        assert len(titles) == len([finding for finding in report.findings if not finding.skipped])
        assert browser.get_log("browser") == []
        for width in (1200, 400):  # a desk and a phone
            browser.set_window_size(width, 900)
            wide = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"the page is {wide} px too wide at {width} px"
        browser.set_window_size(1200, 900)
        shot = tmp_path / "report.png"
        assert browser.save_screenshot(str(shot))
        assert shot.stat().st_size > 20_000


def test_a_folder_that_cannot_be_written_is_a_sentence(report: Audit, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelKeepError, match="The report cannot be written to"):
        audit_page(report).write(tmp_path / "file", "report.html", "run.json")


@pytest.mark.parametrize(("share", "text"), [(0.0, "0.0 %"), (1.0, "100.0 %"), (0.9999, "> 99.9 %"), (1e-5, "< 0.1 %")])
def test_percentages_never_round_to_certainty(share: float, text: str) -> None:
    assert percent(share) == text


def test_nonsense_is_refused(subject: tuple[Model, Data]) -> None:
    for wrong in ({"examples": 0}, {"radii": (0.2, 0.1)}, {"radii": ()}, {"steps": 0}):
        with pytest.raises(InputError, match="parameter of Settings"):
            Settings(**wrong)
    with pytest.raises(InputError, match="takes inputs of shape"):
        audit(subject[0], datasets.load("breast-cancer", "test"), FEWER, seed=0)


def test_an_audit_of_data_that_do_not_fit_into_memory_is_the_same(
    trained_cnn: Model, digits: tuple[Data, Data], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, few = digits[0], Settings(examples=12, checks=("accuracy", "influence", "amplification"))
    np.savez(tmp_path / "digits.npz", x=data.x.numpy(), y=data.y.numpy(), classes=np.array(data.classes))
    stored = replace(datasets.open(tmp_path / "digits.npz", in_memory=0, cache=tmp_path), name=data.name)
    in_memory = audit(trained_cnn, data, few, seed=0)
    monkeypatch.setattr(examples, "MOST_BYTES", 4 * 64 * 600)  # 600 of the 1438 digits
    monkeypatch.setattr(examples, "PART_BYTES", 4 * 64 * 100)
    found = audit(trained_cnn, stored, few, seed=0)
    assert found.provenance.data == in_memory.provenance.data
    assert [(s.measures, s.findings) for s in found.sections] == [(s.measures, s.findings) for s in in_memory.sections]


def test_ctrl_c_ends_the_audit_with_what_was_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: CheckInfluence, model: Model, data: Data, *, seed: int = 0) -> Section:
        raise KeyboardInterrupt

    monkeypatch.setattr(CheckInfluence, "__call__", stop)
    x = torch.rand(60, 3, generator=torch.Generator().manual_seed(0))
    layer = nn.Linear(3, 2)
    layer.weight.data = torch.tensor([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])  # about as many of each class
    layer.bias.data.zero_()
    model = Model(layer, input_shape=(3,), classes=2)
    data = Data(x, model.predict(x), model.classes)
    found = audit(model, data, Settings(checks=("influence", "accuracy")), seed=0)
    assert found.stopped
    status = {finding.id: finding.status for finding in found.findings}
    assert status["influence.not-run"] == "not run"
    assert status["accuracy.as-expected"] == "pass"
    assert "stopped before" in next(f.measured for f in found.findings if f.skipped)


def test_what_was_looked_at_in_part_is_never_good() -> None:
    finding = Finding("a.b", "good", "T", "M", "m", "r", partial="Half of it was not looked at.")
    assert (finding.severity, finding.status) == ("unclear", "inconclusive")


def test_a_check_that_was_estimated_too_low_is_stopped_between_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def dawdle(self: CheckAccuracy, model: Model, data: Data, *, seed: int = 0) -> Section:
        with progress.task("Steps", total=10_000_000) as task:
            while True:
                task.advance()
                time.sleep(0.001)

    monkeypatch.setattr(CheckAccuracy, "__call__", dawdle)
    model = Model(nn.Linear(3, 2), input_shape=(3,), classes=2)
    data = Data(torch.rand(8, 3), torch.zeros(8, dtype=torch.int64), model.classes)
    (finding,) = audit(model, data, Settings(checks=("accuracy",), minutes=0.01), seed=0).findings
    assert finding.status == "not run"
    assert "'Steps' was stopped after 1 s" in finding.measured
