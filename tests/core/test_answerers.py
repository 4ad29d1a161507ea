"""A URL and an ONNX session answer like any other black box, with the numbers that they give."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import PGD, Boundary, Square
from modelkeep.core.access import Scores
from modelkeep.core.answerers import describe_url, is_url
from modelkeep.core.errors import AccessError, ModelError
from modelkeep.extract import Extract, Knockoff
from modelkeep.training import Recipe

WEIGHT = np.random.default_rng(0).normal(size=(4, 3))


class Service(BaseHTTPRequestHandler):
    """A linear classifier behind the Open Inference Protocol: probabilities, and labels as a second output."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer(
            {
                "name": "linear",
                "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
                "outputs": [
                    {"name": "probabilities", "datatype": "FP64", "shape": [-1, 3]},
                    {"name": "label", "datatype": "INT64", "shape": [-1]},
                ],
            }
        )

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        x = np.array(asked["inputs"][0]["data"]).reshape(asked["inputs"][0]["shape"])
        logits = x @ WEIGHT
        probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        name = asked["outputs"][0]["name"]
        data, kind = (logits.argmax(1), "INT64") if name == "label" else (probabilities, "FP64")
        shape = list(data.shape)
        self._answer({"outputs": [{"name": name, "datatype": kind, "shape": shape, "data": data.flatten().tolist()}]})

    def _answer(self, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v2/models/linear"
    server.shutdown()
    server.server_close()


def linear_data(model: Model, n: int = 12) -> Data:
    x = torch.rand(n, 4, generator=torch.Generator().manual_seed(0))
    return Data(x, model.predict(x), model.classes)


def test_a_url_answers_with_scores_or_labels(url: str) -> None:
    model = Model.load(url, bounds=(0.0, 1.0))
    assert (model.access, model.input_shape, len(model.classes)) == ("scores", (4,), 3)
    x = torch.rand(100, 4)
    logits = x.double().numpy() @ WEIGHT
    torch.testing.assert_close(model.probs(x), torch.tensor(logits).softmax(1).float(), atol=1e-5, rtol=1e-4)
    labels = Model.answering(url, classes=("a", "b", "c"), gives="labels")
    assert labels.access == "labels"
    assert labels.predict(x).tolist() == logits.argmax(1).tolist()
    assert describe_url(url, "scores", None).description == url
    assert is_url(url)


def test_a_url_is_attacked_and_stolen(url: str) -> None:
    model = Model.load(url, bounds=(0.0, 1.0))
    data = linear_data(model)
    assert (Square(radius=0.5, queries=20)(model, data, seed=0).after != data.y).any()
    assert len(Boundary(queries=100)(model, data.first(2), seed=0).after) == 2
    with pytest.raises(AccessError, match="only answers with scores"):
        PGD(radius=0.1)(model, data)
    pool = Data(torch.rand(300, 4), torch.zeros(300, dtype=torch.int64), model.classes)
    stolen = Extract(pool, Knockoff(300), recipe=Recipe(epochs=30))(Scores(model), data, seed=0)
    assert stolen.fidelity.value > 0.6


def unread_network(path: Path) -> Path:
    """An ONNX file with an operator that our reader does not know: relu(x) @ W, by ThresholdedRelu."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("ThresholdedRelu", ["x"], ["kept"], alpha=0.25),
            helper.make_node("MatMul", ["kept", "W"], ["logits"]),
        ],
        "unread",
        [helper.make_tensor_value_info("x", kind, ["n", 4])],
        [helper.make_tensor_value_info("logits", kind, ["n", 3])],
        [onnx.numpy_helper.from_array(WEIGHT.astype(np.float32), "W")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_an_unknown_operator_is_run_by_onnxruntime(tmp_path: Path) -> None:
    model = Model.load(unread_network(tmp_path / "unread.onnx"))
    assert (model.access, model.input_shape, len(model.classes)) == ("scores", (4,), 3)
    x = torch.rand(20, 4)
    wanted = np.where(x.numpy() > 0.25, x.numpy(), 0) @ WEIGHT.astype(np.float32)
    np.testing.assert_allclose(model.logits(x).numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert model.fingerprint() == Model.load(tmp_path / "unread.onnx").fingerprint()
    with pytest.raises(AccessError, match="PGD needs the weights"):
        PGD(radius=0.1)(model, linear_data(model))


def test_what_onnxruntime_cannot_run_either_says_both_reasons(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    path = unread_network(tmp_path / "unread.onnx")
    graph = onnx.load(path)
    graph.graph.node[0].domain = "somebody.else"
    graph.opset_import.append(onnx.helper.make_opsetid("somebody.else", 1))
    onnx.save(graph, path)
    with pytest.raises(ModelError, match=r"does not read: somebody\.else.*cannot be run as a black box either"):
        Model.load(path)


def test_a_service_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelError, match="Which model"):
        Model.answering("http://127.0.0.1:9/")
    assert isinstance(Model.answering(lambda x: x, input_shape=(3,), classes=3).module, nn.Module)
