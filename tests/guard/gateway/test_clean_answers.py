"""No clean answer leaves what `guard init` sets up, whatever is asked; settings that let some leave are said."""

from __future__ import annotations

import asyncio
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.gate import Gate
from modelkeep.guard.gateway.assembly import Plan, build_service, make_plan
from modelkeep.guard.gateway.clean_answers import warn_of_clean_answers
from modelkeep.guard.gateway.config import open_configured_store, parse_config
from modelkeep.guard.gateway.example import example_settings
from modelkeep.guard.grid import confidences, distortion
from modelkeep.guard.policy import Policy
from modelkeep.guard.protocol.messages import InferenceRequest, Tensor
from modelkeep.guard.protocol.tensors import Array
from modelkeep.guard.store.sqlite import SqliteStore
from modelkeep.zoo import datasets

SECRET = b"0123456789abcdef"


def plan(folder: Path, *, data: str | None = None, **defence: object) -> Plan:
    """What the settings of `guard init` mean for the model that comes with the package."""
    (folder / "guard.secret").write_bytes(2 * SECRET)
    (folder / "guard.secret").chmod(0o600)
    example = example_settings("guard.toml", secret="guard.secret", model="digits-cnn", data=data)
    given = tomllib.loads(example)
    given["principals"]["open"] = True
    if defence:
        given["defence"] = defence
    return make_plan(parse_config(given, "guard.toml", folder))


@pytest.mark.parametrize("data", [None, "digits"], ids=["without data", "with the owner's data"])
def test_what_init_sets_up_answers_no_query_cleanly(tmp_path: Path, data: str | None) -> None:
    made = plan(tmp_path, data=data)
    assert warn_of_clean_answers(made) == ()
    rows = datasets.load("digits", "test").x.numpy()

    async def ask() -> tuple[int, int, int, int]:
        store = open_configured_store(made.config)
        service = await build_service(made, store)
        seeded = sum(service.gate.centroids.length(label) for label in range(10))
        answered = [await service.infer(None, partial(_request, part)) for part in np.array_split(rows, 8)]
        told = np.concatenate([answer.output.array for answer in answered])
        clean = await service.backend.predict(rows)
        assert (told.argmax(axis=1) == clean.argmax(axis=1)).all()
        near = int((np.abs(told - clean).sum(axis=1) < 1e-3).sum())
        counted, misses = service.metrics.clean_rows, service.gate.misses
        await service.backend.close()
        store.close()
        return near, counted, seeded, misses

    near, counted, seeded, misses = asyncio.run(ask())
    assert (near, counted) == (0, 0)
    assert misses > 0 if data is None else seeded >= 10


async def _request(rows: Array) -> InferenceRequest:
    return InferenceRequest("model", "", "", (Tensor("input", rows),), (), False)


def test_flat_predictions_of_a_hundred_classes_are_never_answered_cleanly(tmp_path: Path) -> None:
    raw = np.random.default_rng(0).dirichlet(np.full(100, 0.3), size=400)
    shares = []
    for name, defence in (("paper", ModelGuardS(1.0)), ("keyed", ModelGuardS(1.0, secret=SECRET))):
        store = SqliteStore(tmp_path / f"{name}.sqlite3")
        gate = Gate(Policy(defence, "m", 100), store)
        predictions, answers = gate.answer(raw, [row.tobytes()[:32] for row in raw])
        shares.append(float((distortion(answers, predictions.units) <= gate.policy.slack).mean()))
        assert (confidences(answers).argmax(axis=1) == raw.argmax(axis=1)).all()
        store.close()
    assert shares[0] > 0.5  # the paper's form
    assert shares[1] == 0


def test_settings_that_let_clean_answers_leave_are_said_with_how_many(tmp_path: Path) -> None:
    (paper,) = warn_of_clean_answers(plan(tmp_path, name="modelguard-s"))
    assert "There is no secret" in paper
    assert "examples" not in paper
    (measured,) = warn_of_clean_answers(plan(tmp_path, name="modelguard-s", seed_data="digits"))
    assert "Of the first 1,000 examples of 'digits'" in measured
    assert "0 would be" not in measured
    (none,) = warn_of_clean_answers(plan(tmp_path, name="none"))
    assert "every answer is the clean prediction" in none
    (zero,) = warn_of_clean_answers(plan(tmp_path, name="modelguard-w", epsilon=0.0))
    assert "The budget is 0" in zero
    assert warn_of_clean_answers(plan(tmp_path, name="modelguard-w")) == ()


def test_seeds_begin_empty_lists_only_and_change_no_answer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.sqlite3")
    policy = Policy(ModelGuardS(0.3, secret=SECRET), "m", 3)
    raw = np.random.default_rng(0).dirichlet(np.ones(3), size=60)
    hashes = [row.tobytes()[:32].ljust(32) for row in raw]
    gate = Gate(policy, store)
    predictions, _ = gate.answer(raw[:1], hashes[:1])
    own = ModelGuardS(0.3).initial(3)
    assert own.length(0) == 0
    gate.seed(gate.answer(raw[1:2], hashes[1:2])[0])  # of a list that may be begun already
    lengths = [gate.centroids.length(label) for label in range(3)]
    _, first = gate.answer(raw, hashes)
    again = Gate(policy, store)
    again.seed(predictions)
    np.testing.assert_array_equal(again.answer(raw, hashes)[1], first)
    assert sum(lengths) <= 2
    store.close()
