"""Files that version 0.1.0 wrote are still read, and still mean the same.

They lie in `stored` and are never written again; `tools/store_files.py` shows how they were made.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from modelkeep import Model, Result
from modelkeep.attack import Attacked, ProxySet, RobustnessCurve
from modelkeep.audit import Audit
from modelkeep.bias import Amplification, Mitigated
from modelkeep.certify import Certified, LipschitzBelow, NamedSets, Smoothed
from modelkeep.certify.verifier import Given, verify
from modelkeep.completion import Hardness
from modelkeep.explain import Exemplars, Explained, OcclusionCurve, Shortcuts
from modelkeep.extract import Extraction, FidelityCurve
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.exposure import Advice
from modelkeep.govern.exposure.labels import LabelLeak
from modelkeep.govern.ledger import Audit as LedgerAudit
from modelkeep.govern.ledger import audit as audit_ledgers
from modelkeep.govern.piece.files import join
from modelkeep.govern.session.runs import Evaluated, Trained
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.gate import Gate
from modelkeep.guard.information import InformationBound
from modelkeep.guard.policy import Policy
from modelkeep.guard.store.sqlite import SqliteStore
from modelkeep.harden.hardening import Hardened
from modelkeep.harden.score import Scored
from modelkeep.papers.curves import PaperCurves
from modelkeep.papers.leino2022.figure_9_1 import FIGURE_9_1
from modelkeep.papers.table import PaperTable
from modelkeep.report import Bias
from modelkeep.rl.learning import Learned
from modelkeep.study import Ledger, Study, StudyResult
from modelkeep.study.execution import execute
from modelkeep.training import Augmentation, Fitted, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.datasets import Summary

STORED = Path(__file__).parent / "stored"
EXPECTED: dict[str, Any] = json.loads((STORED / "expected.json").read_text(encoding="utf-8"))
RESULTS: dict[str, type[Result]] = {
    "advice": Advice,
    "amplification": Amplification,
    "attacked": Attacked,
    "attacked-nearest": Attacked,
    "audit": Audit,
    "bias-report": Bias,
    "certified": Certified,
    "evaluated": Evaluated,
    "exemplars": Exemplars,
    "explained": Explained,
    "extraction": Extraction,
    "fidelity-curve": FidelityCurve,
    "fitted": Fitted,
    "hardened": Hardened,
    "hardness": Hardness,
    "information-bound": InformationBound,
    "label-leak": LabelLeak,
    "learned": Learned,
    "ledger-audit": LedgerAudit,
    "lipschitz-below": LipschitzBelow,
    "mitigated": Mitigated,
    "named-sets": NamedSets,
    "occlusion": OcclusionCurve,
    "paper-curves": PaperCurves,
    "paper-table": PaperTable,
    "proxy-set": ProxySet,
    "robustness-curve": RobustnessCurve,
    "scored": Scored,
    "shortcuts": Shortcuts,
    "smoothed": Smoothed,
    "study": StudyResult,
    "summary": Summary,
    "trained": Trained,
}
GROWN = ("advice", "audit", "hardness", "shortcuts")
PAPER, MINE = "bias-figure-9.1-small-seed-0", "mine"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The stored files, for code that also writes to them."""
    return Path(shutil.copytree(STORED, tmp_path / "stored"))


def first(n: int) -> torch.Tensor:
    return datasets.load("digits", "test").first(n).x


def without_kind(text: str) -> Any:
    """What a result holds, without its name and without what results and their provenance tell since then."""

    def drop_new(parts: dict[str, Any]) -> dict[str, Any]:
        new: dict[str, Any] = {"method": None, "settings": {}, "python": "", "options": ""}
        if "seconds" not in parts or "version" not in parts:
            return parts
        return {name: value for name, value in parts.items() if name not in new or value != new[name]}

    body = json.loads(text, object_hook=drop_new)
    body.pop("kind")
    since: dict[str, Any] = {"other_code": "", "train_name": ""}
    since |= {"proofs": [], "given_up": [], "history": [], "budgets": [], "key_changes": []}
    return {name: value for name, value in body.items() if name not in since or value != since[name]}


def _holds(whole: Any, part: Any) -> bool:
    """Whether all that is in the part is in the whole, too."""
    if isinstance(part, dict):
        return all(name in whole and _holds(whole[name], value) for name, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(_holds, whole, part))
    return bool(whole == part)


def test_there_is_a_line_for_each_stored_result() -> None:
    assert sorted(path.stem for path in (STORED / "results").glob("*.json")) == sorted(RESULTS)


@pytest.mark.parametrize("name", RESULTS)
def test_results_come_back_whole(name: str) -> None:
    text = (STORED / "results" / f"{name}.json").read_text(encoding="utf-8")
    result = Result.from_json(text)
    assert type(result) is RESULTS[name]
    if name in GROWN:  # what was there stands, beside what is told since
        raised = {"schema": type(result).schema} if type(result).schema > 1 else {}
        assert _holds(json.loads(result.to_json()), without_kind(text) | raised)
    elif name != "study":  # its records have the names of now; the test of a paper's ledger reads them
        assert without_kind(result.to_json()) == without_kind(text)
    assert result.provenance.version == "0.1.0"
    assert len(str(result)) > 100


def test_a_model_that_names_one_of_our_factories_is_built_and_answers_as_it_did() -> None:
    model = Model.load(STORED / "model.safetensors")
    torch.testing.assert_close(model.logits(first(2)), torch.tensor(EXPECTED["logits"]), atol=1e-5, rtol=0)
    assert model.fingerprint() == EXPECTED["model"]  # results, certificates and agreements name it by this


def test_a_training_goes_on_from_its_checkpoint(copy: Path) -> None:
    model = Model.load(copy / "start.safetensors")
    assert model.fingerprint() == EXPECTED["training"]["start"]
    shifted = Augmentation(shift=0.1, rotation=10)
    recipe = Recipe(steps=12, batch_size=32, learning_rate=5e-3, evaluate_every=4, augmentation=shifted)
    train, held_out = datasets.load("digits", "train").first(200), datasets.load("digits", "test").first(50)
    before = (copy / "half-way.checkpoint").read_bytes()
    fitted = fit(
        model, train, cross_entropy, recipe, seed=2, held_out=held_out, checkpoint=copy / "half-way.checkpoint"
    )
    assert (copy / "half-way.checkpoint").read_bytes() != before  # it went on, and wrote the end
    torch.testing.assert_close(model.logits(first(2)), torch.tensor(EXPECTED["training"]["logits"]), atol=1e-4, rtol=0)
    stored = Fitted.from_json((STORED / "results" / "fitted.json").read_text(encoding="utf-8"))
    assert [row.step for row in fitted.history] == [row.step for row in stored.history] == [4, 8, 12]
    assert fitted.history[0] == stored.history[0]  # of before the plug was pulled, so on any machine


def test_a_certificate_holds_with_its_weights() -> None:
    inputs = first(6).numpy()
    certificate = STORED / "certificate.json"
    signer = json.loads(certificate.read_text(encoding="utf-8"))["public_key"]
    given = Given(inputs, datasets.load("digits", "test").first(6).y.numpy())
    report = verify(certificate, weights=STORED / "certified.safetensors", data=given, signer=signer)
    assert {check.name for check in report.checks if check.status != "holds"} == {"binding", "data"}
    assert report.word == "consistent"  # version 1 does not say of which data set it is
    named = json.loads((STORED / "certificate.json").read_text(encoding="utf-8"))["model"]["fingerprint"]
    assert Model.load(STORED / "certified.safetensors").fingerprint() == named == EXPECTED["certified"]


def test_a_ledger_gives_the_trials_of_a_paper_back(copy: Path) -> None:
    with Ledger(copy / "ledger.sqlite3", create=False) as ledger:
        assert sorted(ledger.studies()) == [PAPER, MINE]
        records = tuple(ledger.records(PAPER))
    assert [(record.state, record.parameters["prior"]) for record in records] == [
        ("done", 0.5),
        ("done", 0.75),
        ("done", 0.9),
    ]
    stored = StudyResult.from_json((STORED / "results" / "study.json").read_text(encoding="utf-8"))
    assert {record.name for record in records} == {"leino2022/figure-9.1"}
    # What made them is gone: at that time a trial was known by its function's place and that module's bytes.
    assert {record.changed_files for record in records} == {("bias/studies/figure_9_1.py",)}
    assert tuple(replace(record, changed_files=()) for record in records) == stored.records
    found = FIGURE_9_1.report(StudyResult(study=PAPER, records=records, provenance=stored.provenance))
    before = (STORED / "results" / "paper-curves.json").read_text(encoding="utf-8")
    new = {"where": "Leino2022, figure 9.1", "other_code": "3 of 3 trials; changed since: bias/studies/figure_9_1.py"}
    assert without_kind(found.to_json()) == without_kind(before) | new


def test_a_ledger_gives_a_users_own_trials_back(copy: Path) -> None:
    with Ledger(copy / "ledger.sqlite3", create=False) as ledger:
        squared, judged = ledger.records(MINE)
    assert (squared.name, squared.value) == ("stored.mine:square", {"square": 49, "seed": 1})
    assert squared.changed_files == ("stored/mine.py",)  # one of its imports moved
    assert judged.value["kind"] == "stored.mine.Judged"
    assert judged.value["accuracy"]["value"] == 0.4


@pytest.mark.parametrize("study", [PAPER, MINE])
def test_remembered_trials_can_be_run_again(study: str, copy: Path) -> None:
    """By the names that they have now."""
    with Ledger(copy / "ledger.sqlite3", create=False) as ledger:
        before = ledger.records(study)[0]
        trial = Study.recall(ledger, study).trials[0]
    with torch.random.fork_rng(devices=[]):
        state, text, _ = execute(trial, str(copy))
    assert (state, json.loads(text)) == ("done", before.value)


def test_a_guards_answers_hold_for_ever(copy: Path) -> None:
    """Under another epoch the gate would begin anew, and give other answers to the same queries."""
    policy = Policy(ModelGuardS(0.5), "weights", 4)
    assert policy.epoch == EXPECTED["guard"]["epoch"]
    drawn = np.random.default_rng(9).integers(1, 1000, (30, 4)).astype(np.float64)
    rows = [4, 3, 2, 1, 0]  # the last comes first, so that a log which begins anew would differ
    predictions = (drawn / drawn.sum(axis=1, keepdims=True))[rows]
    store = SqliteStore(copy / "guard.sqlite3")
    gate = Gate(policy, store)
    _, answers = gate.answer(predictions, [sha256(str(row).encode()).digest() for row in rows])
    store.close()
    assert answers.tolist() == [EXPECTED["guard"]["answers"][row] for row in rows]
    assert gate.misses == 0


def test_an_agreement_its_pieces_and_its_ledgers_are_read(copy: Path) -> None:
    folder = copy / "governed"
    agreement = Agreement.read(folder / "agreement.json")
    agreement.check_signed()
    assert agreement.holders == ("alice", "bob")
    model = join(agreement, {name: folder / f"{name}-piece.safetensors" for name in agreement.holders})
    start = Model.load(STORED / "start.safetensors")
    assert torch.equal(model.logits(first(3)), start.logits(first(3)))
    found = audit_ledgers(agreement, {name: folder / f"{name}.jsonl" for name in agreement.holders})
    assert found.sound
    assert found.passes() == {("train", "alice"): 3, ("evaluate", "alice"): 1}
