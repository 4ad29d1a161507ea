"""Networks exported to ONNX by both of torch's exporters answer as onnxruntime answers, and train and cut as ours."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from modelkeep import Model
from modelkeep.core.errors import MissingExtra, ModelError
from modelkeep.zoo import architectures


class Attention(nn.Module):
    """A vision transformer in miniature: patches, positions, a block, the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 4, stride=4)
        self.positions = nn.Parameter(torch.randn(4, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.logits = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return torch.as_tensor(self.logits(self.block(x).mean(dim=1)))


class Functions(nn.Module):
    """Code between modules that exporters turn into shape arithmetic and slices."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, groups=2, dilation=2, padding=2)
        self.logits = nn.Linear(48, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.leaky_relu(self.conv(x), 0.1)
        first, second = torch.chunk(x, 2, dim=1)
        x = torch.cat([first * torch.sigmoid(second), second.clamp(-0.2, 0.3)], dim=1)
        x = nn.functional.avg_pool2d(nn.functional.pad(x, (1, 1, 0, 0)), 2)[:, ::2, :, 1:]
        x = x.reshape(x.size(0), -1)
        return torch.as_tensor(self.logits(x[:, :48]) - x.pow(2).mean(dim=1, keepdim=True).sqrt())


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "dense": (lambda: architectures.dense([6], 3), (6,)),
    "minmax": (lambda: architectures.dense([6], 3, hidden=[8], activation="minmax"), (6,)),
    "small_cnn": (lambda: architectures.small_cnn([1, 12, 12], 3), (1, 12, 12)),
    "small_resnet": (lambda: architectures.small_resnet([3, 8, 8], 3, blocks=1, width=4), (3, 8, 8)),
    "vgg16_bn": (lambda: architectures.vgg16_bn([3, 32, 32], 3), (3, 32, 32)),
    "functions": (Functions, (2, 8, 8)),
    "attention": (Attention, (1, 8, 8)),
}
# The new exporter takes seconds per network; these cover what it writes otherwise than the old one.
DYNAMO = ("small_resnet", "functions", "attention")


def export(module: nn.Module, shape: tuple[int, ...], path: Path, *, dynamo: bool = False, fixed: bool = False) -> Path:
    """Export quietly: both exporters warn about their own insides."""
    x = torch.rand(1 if fixed else 2, *shape)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            batch = None if fixed else ({0: torch.export.Dim("batch")},)
            torch.onnx.export(module, (x,), path, dynamo=True, dynamic_shapes=batch, verbose=False)
        else:
            axes = None if fixed else {"x": {0: "batch"}}
            torch.onnx.export(module, (x,), str(path), dynamo=False, dynamic_axes=axes, input_names=["x"])
    return path


def independent(path: Path, x: torch.Tensor) -> torch.Tensor:
    """The answer of onnxruntime."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def lively(module: nn.Module) -> nn.Module:
    """In eval mode, with statistics that a forgotten normalisation would show."""
    generator = torch.Generator().manual_seed(2)
    for name, buffer in module.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
    return module.eval()


@pytest.mark.parametrize(("name", "dynamo"), [(name, False) for name in NETWORKS] + [(name, True) for name in DYNAMO])
def test_networks_answer_as_onnxruntime_does(name: str, dynamo: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    module = lively(make())
    path = export(module, shape, tmp_path / "model.onnx", dynamo=dynamo)
    model = Model.load(path)
    assert model.input_shape == shape
    assert model.classes == ("0", "1", "2")
    for n in (1, 7):
        x = torch.rand(n, *shape, requires_grad=True)
        logits = model.forward(x)
        torch.testing.assert_close(logits, independent(path, x.detach()), rtol=1e-4, atol=1e-5)
        # Gradients have no other truth than the network that was exported.
        (got,) = torch.autograd.grad(logits.square().sum(), x)
        (expected,) = torch.autograd.grad(module(x).square().sum(), x)
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)
    x = model.probe()
    places = model.slices()
    for place in places[:: max(1, len(places) // 6)]:
        cut = model.slice(place)
        assert torch.equal(cut.g(cut.h(x)), model.forward(x)), place
        assert cut.traced, place


def test_weights_are_parameters_that_train(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 3)).eval()
    model = Model.load(export(module, (1, 8, 8), tmp_path / "model.onnx"))
    count = sum(p.numel() for p in model.module.parameters())
    assert count == sum(p.numel() for p in module.parameters())
    assert {tuple(b.shape) for b in model.module.buffers()} == {(2,)}  # the statistics
    optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)
    x, y = torch.rand(16, 1, 8, 8), torch.arange(16) % 3
    losses = []
    for _ in range(20):
        loss = nn.functional.cross_entropy(model.forward(x), y)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert losses[-1] < losses[0]


def test_probabilities_become_logits(tmp_path: Path) -> None:
    linear = nn.Linear(4, 3)
    path = export(nn.Sequential(linear, nn.Softmax(dim=1)).eval(), (4,), tmp_path / "model.onnx")
    model, x = Model.load(path), torch.rand(5, 4)
    torch.testing.assert_close(model.logits(x), linear(x).detach())
    torch.testing.assert_close(model.probs(x), independent(path, x))


def test_a_fixed_batch_is_refused_with_the_remedy(tmp_path: Path) -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(self.linear(x.reshape(1, 8)))

    path = export(Fixed().eval(), (2, 4), tmp_path / "model.onnx", fixed=True)
    with pytest.raises(ModelError, match=r"export it again: torch\.onnx\.export.*dynamic_shapes"):
        Model.load(path)
    path = export(nn.Sequential(nn.Flatten(), nn.Linear(8, 3)).eval(), (2, 4), tmp_path / "m.onnx", fixed=True)
    assert Model.load(path).logits(torch.rand(5, 2, 4)).shape == (5, 3)


def test_external_data_is_found_and_missed(tmp_path: Path) -> None:
    path = export(nn.Linear(4, 3).eval(), (4,), tmp_path / "model.onnx")
    x = torch.rand(2, 4)
    expected = independent(path, x)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.data", size_threshold=0)
    torch.testing.assert_close(Model.load(path).logits(x), expected)
    (tmp_path / "weights.data").unlink()
    with pytest.raises(ModelError, match="with its external data"):
        Model.load(path)


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    path = export(nn.Linear(4, 3).eval(), (4,), tmp_path / "model.onnx")
    whole = path.read_bytes()
    for length in (10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match="cannot be read as ONNX"):
            Model.load(path)


def test_the_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = export(nn.Linear(4, 3).eval(), (4,), tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"pip install 'modelkeep\[formats\]'"):
        Model.load(path)


def graph(path: Path, nodes: list[Any], **parts: Any) -> Path:
    """A hand-made model x: (n, 4) → y: (n, 3)."""
    x = helper.make_tensor_value_info("x", parts.get("type", TensorProto.FLOAT), ["n", *parts.get("shape", [4])])
    outputs = parts.get("outputs", [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])])
    weights = [numpy_helper.from_array(value, name) for name, value in parts.get("weights", {}).items()]
    opsets = [helper.make_opsetid("", 18), *parts.get("opsets", [])]
    made = helper.make_graph(nodes, "g", [x], outputs, weights)
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=8), path)  # what onnxruntime reads
    return path


W = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
GEMM = helper.make_node("Gemm", ["x", "W"], ["y"])


def test_unknown_operations_are_all_named(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Hardmax", ["x"], ["a"]),
        helper.make_node("Special", ["a"], ["b"], domain="their.domain"),
        helper.make_node("LpNormalization", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "W"], ["y"]),
    ]
    path = graph(tmp_path / "m.onnx", nodes, weights={"W": W}, opsets=[helper.make_opsetid("their.domain", 1)])
    with pytest.raises(ModelError, match=r"Hardmax, LpNormalization, their\.domain\.Special"):
        Model.load(path)


def test_an_unknown_attribute_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("ConvTranspose", ["x", "K"], ["y"], auto_pad="SAME_UPPER")]
    kernel = np.ones((1, 1, 3), dtype=np.float32)
    with pytest.raises(ModelError, match=r"uses ConvTranspose in a way.*auto_pad"):
        Model.load(graph(tmp_path / "m.onnx", nodes, weights={"K": kernel}, shape=[1, 4]))


def test_what_the_scores_do_not_need_is_left_out(tmp_path: Path) -> None:
    """As scikit-learn's converters write it: labels beside probabilities, with operations of another domain."""
    nodes = [
        helper.make_node("Gemm", ["x", "W"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"], axis=-1),
        helper.make_node("ArgMax", ["y"], ["i"], axis=1, keepdims=0),
        helper.make_node("LabelEncoder", ["i"], ["label"], domain="ai.onnx.ml", keys_int64s=[0], values_int64s=[5]),
    ]
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3]),
    ]
    path = graph(
        tmp_path / "m.onnx", nodes, weights={"W": W}, outputs=outputs, opsets=[helper.make_opsetid("ai.onnx.ml", 3)]
    )
    x = torch.rand(5, 4)
    torch.testing.assert_close(Model.load(path).logits(x), x @ torch.from_numpy(W))


def test_shared_and_transposed_weights_stay_weights(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Identity", ["S"], ["T"]),
        helper.make_node("Transpose", ["V"], ["W"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "S"], ["a"]),
        helper.make_node("MatMul", ["a", "T"], ["b"]),
        helper.make_node("MatMul", ["b", "W"], ["y"]),
    ]
    square = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32)
    path = graph(tmp_path / "m.onnx", nodes, weights={"S": square, "V": W.T.copy()})
    model = Model.load(path)
    assert sorted(tuple(p.shape) for p in model.module.parameters()) == [(4, 3), (4, 4)]
    x = torch.rand(5, 4)
    torch.testing.assert_close(model.logits(x), independent(path, x))


def test_nan_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="NaN"):
        Model.load(graph(tmp_path / "m.onnx", [GEMM], weights={"W": np.full_like(W, np.nan)}))


def test_inputs_and_outputs_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with pytest.raises(ModelError, match="leaves the shape of its input open"):
        Model.load(graph(path, [GEMM], weights={"W": W}, shape=["k"]))
    assert Model.load(path, input_shape=(4,)).input_shape == (4,)
    with pytest.raises(ModelError, match="floating type"):
        Model.load(graph(path, [helper.make_node("Cast", ["x"], ["y"], to=1)], type=TensorProto.INT64))
    both = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("y", "z")]
    nodes = [GEMM, helper.make_node("Relu", ["y"], ["z"])]
    with pytest.raises(ModelError, match=r"one output of scores.*'y', 'z'"):
        Model.load(graph(path, nodes, weights={"W": W}, outputs=both))
    two = onnx.load(graph(path, [GEMM], weights={"W": W}))
    two.graph.input.append(helper.make_tensor_value_info("W", TensorProto.FLOAT, [4, 3]))
    del two.graph.initializer[:]
    onnx.save(two, path)
    with pytest.raises(ModelError, match=r"one input.*\['x', 'W'\]"):
        Model.load(path)


def test_an_export_in_train_mode_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["on"], value=helper.make_tensor("on", TensorProto.BOOL, [], [True])),
        helper.make_node("Dropout", ["x", "", "on"], ["d"]),
        helper.make_node("Gemm", ["d", "W"], ["y"]),
    ]
    with pytest.raises(ModelError, match="train mode"):
        Model.load(graph(tmp_path / "m.onnx", nodes, weights={"W": W}))
