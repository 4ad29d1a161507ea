"""An audit that was killed goes on where it was, and what changed since is run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.audit import Section, Settings, audit
from modelkeep.audit.accuracy import CheckAccuracy
from modelkeep.audit.journal import Journal
from modelkeep.audit.plan import Step, not_run

SETTINGS = Settings(checks=("accuracy", "amplification"), examples=20)
ASK = """
import os, signal, sys, torch
from pathlib import Path
from modelkeep import Data, Model
from modelkeep.audit import audit
from modelkeep.audit.amplification import CheckAmplification
from modelkeep.audit.journal import Journal
from audit.test_journal import SETTINGS, subject
def die(self, model, data, *, seed=0): os.kill(os.getpid(), signal.SIGKILL)
CheckAmplification.__call__ = die
audit(*subject(), SETTINGS, seed=0, journal=Journal(Path(sys.argv[1])))
"""


def subject() -> tuple[Model, Data]:
    module = torch.nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 0, 0], [-1.0, 0, 0]]))
        module.bias.copy_(torch.tensor([-0.5, 0.5]))
    model = Model(module, input_shape=(3,), classes=("a", "b"))
    x = torch.rand(60, 3, generator=torch.Generator().manual_seed(0))
    return model, Data(x, model.predict(x), model.classes)


def test_a_killed_audit_goes_on_with_the_checks_that_it_had_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    folder = tmp_path / "unfinished"
    killed = subprocess.run([sys.executable, "-c", ASK, folder], env={**os.environ, "PYTHONPATH": paths}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name.partition("-")[0] for path in folder.iterdir()] == ["accuracy"]
    whole = audit(*subject(), SETTINGS, seed=0)

    def refuse(self: Any, model: Any, data: Any, *, seed: int = 0) -> Section:
        raise AssertionError("it was finished before")

    monkeypatch.setattr(CheckAccuracy, "__call__", refuse)
    journal = Journal(folder)
    resumed = audit(*subject(), SETTINGS, seed=0, journal=journal)
    assert resumed.findings == whole.findings
    assert [section.pictures for section in resumed.sections] == [section.pictures for section in whole.sections]
    journal.remove()
    assert not folder.exists()


def test_another_seed_other_data_or_other_settings_are_another_check(tmp_path: Path) -> None:
    model, data = subject()
    journal = Journal(tmp_path)
    step = Step("accuracy", CheckAccuracy(), 1.0)
    journal.recall(step, model, data, None, 0).keep(Section("Kept", "", check="accuracy"))
    again = journal.recall(step, model, data, None, 0).section
    assert again is not None
    assert again.title == "Kept"
    assert journal.recall(step, model, data, None, 1).section is None
    assert journal.recall(step, model, data.first(10), None, 0).section is None
    assert journal.recall(step, model, data, data, 0).section is None
    with torch.no_grad():
        next(model.module.parameters()).add_(1.0)
    assert (
        journal.recall(step, Model(model.module, input_shape=(3,), classes=("a", "b")), data, None, 0).section is None
    )


def test_a_damaged_entry_is_run_again_and_what_did_not_run_is_not_kept(tmp_path: Path) -> None:
    model, data = subject()
    journal = Journal(tmp_path)
    step = Step("accuracy", CheckAccuracy(), 1.0)
    journal.recall(step, model, data, None, 0).keep(not_run(step))
    assert list(tmp_path.iterdir()) == []
    journal.recall(step, model, data, None, 0).keep(Section("Kept", ""))
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps({"title": 3})[:-4])
    assert journal.recall(step, model, data, None, 0).section is None
