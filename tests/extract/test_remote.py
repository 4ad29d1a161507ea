"""Remote targets, against a small server on loopback that counts, refuses and forgets as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.core.access import Scores
from modelkeep.core.errors import InputError, ModelError, PredictionError, QueryBudget
from modelkeep.extract.attacks import Repeated
from modelkeep.extract.extraction import Extract
from modelkeep.extract.remote import Remote
from modelkeep.extract.strategies import Knockoff
from modelkeep.training import Recipe

RECIPE = Recipe(steps=20, batch_size=32, learning_rate=3e-3)
Refusals = list[tuple[int, dict[str, str]]]


@dataclass
class Served:
    """A server's model, what it says of itself, what it refuses next, and what was sent to it."""

    model: Model
    url: str = ""
    logits: bool = False
    outputs: list[dict[str, Any]] = field(
        default_factory=lambda: [{"name": "p", "datatype": "FP32", "shape": [-1, 10]}]
    )
    refusals: Refusals = field(default_factory=list)
    dies_after: int | None = None
    rows: list[int] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)


@contextmanager
def serving(served: Served) -> Iterator[Served]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]
            self.answer(200, {"name": "digits", "inputs": inputs, "outputs": served.outputs})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if served.refusals:
                status, headers = served.refusals.pop(0)
                self.answer(status, {"error": "not now"}, headers)
                return
            tensor = body["inputs"][0]
            if served.dies_after is not None and sum(served.rows) >= served.dies_after:
                self.answer(400, {"error": "dead"})
                return
            served.rows.append(tensor["shape"][0])
            served.keys.add(self.headers.get("Authorization"))
            x = torch.tensor(tensor["data"]).view(tensor["shape"])
            answers = served.model.logits(x) if served.logits else served.model.probs(x)
            output = {**served.outputs[0], "shape": list(answers.shape), "data": answers.flatten().tolist()}
            self.answer(200, {"model_name": "digits", "outputs": [output]})

        def answer(self, status: int, told: dict[str, Any], headers: dict[str, str] | None = None) -> None:
            content = json.dumps(told).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def served(victim: Model) -> Iterator[Served]:
    with serving(Served(victim)) as ready:
        yield ready


def test_it_reads_what_the_target_is_and_asks_in_batches(served: Served, test_digits: Data) -> None:
    with Remote(served.url, "digits", key="secret", batch=64) as target:
        assert (target.input_shape, len(target.classes), target.dtype) == ((1, 8, 8), 10, torch.float32)
        answers = target.probs(test_digits.x)
        assert target.queries == len(test_digits)
    torch.testing.assert_close(answers, Scores(served.model).probs(test_digits.x))
    assert served.rows == [64, 64, 64, 8]
    assert served.keys == {"Bearer secret"}


def test_a_question_is_sent_once(served: Served, test_digits: Data) -> None:
    x = test_digits.x[:30]
    with Remote(f"{served.url}/v2/models/digits", budget=40) as target:
        first = target.probs(torch.cat([x[:20], x[:20]]))
        again = target.probs(x)
        assert torch.equal(first[:20], again[:20])
        assert target.queries == sum(served.rows) == 30
        with pytest.raises(QueryBudget, match="The budget is 40 queries: 30 are spent, and 11 more"):
            target.probs(test_digits.x[30:41])
        assert sum(served.rows) == 30


def test_to_ask_again_on_purpose_is_possible(served: Served, test_digits: Data) -> None:
    with Remote(served.url, "digits") as target:
        Repeated(3).ask(target, test_digits.x[:10], 0)
        assert target.queries == sum(served.rows) == 30


def test_it_waits_as_it_is_told_and_goes_on(served: Served, test_digits: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("modelkeep.core.remote.time.sleep", slept.append)
    served.refusals = [(429, {"Retry-After": "7"}), (503, {})]
    with Remote(served.url, "digits") as target:
        torch.testing.assert_close(target.probs(test_digits.x[:5]), served.model.probs(test_digits.x[:5]))
    assert slept == [7.0, 0.2]
    served.refusals = [(429, {"Retry-After": "3600"})]
    with Remote(served.url, "digits") as target, pytest.raises(ModelError, match=r"gave no answer in 60 s.*429"):
        target.probs(test_digits.x[:5])
    served.refusals = [(429, {})]
    with Remote(served.url, "digits") as target, pytest.raises(QueryBudget, match=r"answers no more.*not now"):
        target.probs(test_digits.x[:5])
    served.refusals = [(401, {})]
    with Remote(served.url, "digits") as target, pytest.raises(ModelError, match="refused: status 401: not now"):
        target.probs(test_digits.x[:5])


def test_it_is_no_faster_than_its_rate(served: Served, test_digits: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("modelkeep.core.remote.time.monotonic", lambda: now[0])
    monkeypatch.setattr("modelkeep.core.remote.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    with Remote(served.url, "digits", rate=20) as target:
        target.probs(test_digits.x[:100])
    assert max(served.rows) == 20
    assert now[0] == pytest.approx(80 / 20)  # the last of the hundred goes out after the time of the others


def test_logits_and_wrong_outputs_are_refused(victim: Model, test_digits: Data) -> None:
    with serving(Served(victim, logits=True)) as served:
        with Remote(served.url, "digits") as target, pytest.raises(PredictionError, match="If they are logits, say so"):
            target.probs(test_digits.x)
        with Remote(served.url, "digits", returns="logits") as target:
            torch.testing.assert_close(target.probs(test_digits.x[:9]), victim.probs(test_digits.x[:9]))
        served.outputs = [{"name": "label", "datatype": "BYTES", "shape": [-1, 1]}]
        with pytest.raises(ModelError, match="Name the output that holds a number per class"):
            Remote(served.url, "digits")
        served.outputs = [{"name": name, "datatype": "FP32", "shape": [-1, 10]} for name in ("p", "embedding")]
        with pytest.raises(ModelError, match="has: 'p', 'embedding'"):
            Remote(served.url, "digits")
        assert Remote(served.url, "digits", output="p").classes
        served.outputs = [{"name": "p", "datatype": "FP32", "shape": [-1, -1]}]
        with pytest.raises(ModelError, match="does not say how many classes"):
            Remote(served.url, "digits")
        assert len(Remote(served.url, "digits", classes=10).classes) == 10


def test_addresses_are_checked(served: Served) -> None:
    with pytest.raises(InputError, match="an http:// or https:// address"):
        Remote("ftp://somewhere/model")
    with pytest.raises(ModelError, match="Which model"):
        Remote(served.url)
    with pytest.raises(ModelError, match="gave no answer"):
        Remote("http://127.0.0.1:9", "digits", patience=0.2)


def test_a_run_that_was_stopped_goes_on(
    served: Served, halves: tuple[Data, Data], test_digits: Data, tmp_path: Path
) -> None:
    """Stopped in the middle, its file torn at the end, the second run asks only for the rest, and ends the same."""
    steal = Extract(halves[1], Knockoff(100), Repeated(2), recipe=RECIPE)

    def run(folder: Path | None) -> Any:
        with Remote(served.url, "digits", batch=16, folder=folder) as target:
            return steal(target, test_digits, seed=0)

    whole = run(None)
    served.rows.clear()
    served.dies_after = 64
    with pytest.raises(ModelError, match="dead"):
        run(tmp_path)
    assert sum(served.rows) == 64
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:-5])  # what a loss of power leaves: one answer half written
    served.rows.clear()
    served.dies_after = None
    resumed = run(tmp_path)
    assert sum(served.rows) == 200 + len(test_digits) - 63
    assert (resumed.queries, resumed.judging_queries) == (whole.queries, whole.judging_queries) == (200, 200)
    assert resumed.substitute.fingerprint() == whole.substitute.fingerprint()
    served.rows.clear()
    run(tmp_path)
    assert served.rows == []
