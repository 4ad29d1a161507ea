"""Exported programs come back as they were, with gradients; what could run code in an archive is never run."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modelkeep import Model, architectures
from modelkeep.errors import ModelError


class Kinds(nn.Module):
    """Buffers, constants, a split, sizes and functions between modules."""

    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(12, 8), nn.LayerNorm(8), nn.Dropout(0.5)
        self.logits = nn.Linear(8, 3)
        self.register_buffer("scale", torch.rand(8), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.norm(self.linear(x.view(x.shape[0], -1))))
        first, second = torch.chunk(x, 2, dim=1)
        x = torch.cat([nn.functional.gelu(first, approximate="tanh"), second * torch.tensor(2.0)], dim=1)
        return torch.as_tensor(self.logits(x * self.scale))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.logits = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.logits(self.block(x).mean(dim=1)))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.second(torch.relu(self.first(x))))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "small_cnn": (lambda: architectures.small_cnn([1, 12, 12], 3), (1, 12, 12)),
    "small_resnet": (lambda: architectures.small_resnet([3, 8, 8], 3, blocks=1, width=4), (3, 8, 8)),
    "kinds": (Kinds, (3, 4)),
    "attention": (Attention, (5, 8)),
    "tied": (Tied, (4,)),
}


def export(module: nn.Module, shape: tuple[int, ...], path: Path, *, dynamic: bool = True, batch: int = 2) -> Path:
    shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
    torch.export.save(torch.export.export(module, (torch.rand(batch, *shape),), dynamic_shapes=shapes), path)
    return path


def lively(module: nn.Module) -> nn.Module:
    """In eval mode, with statistics that a forgotten normalisation would show."""
    generator = torch.Generator().manual_seed(2)
    for name, buffer in module.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
    return module.eval()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good archive, to damage copies of."""
    torch.manual_seed(0)
    return export(lively(Kinds()), (3, 4), tmp_path_factory.mktemp("pt2") / "model.pt2")


def changed(
    archive: Path, path: Path, change: Callable[[str, bytes], bytes | None], add: dict[str, bytes] | None = None
) -> Path:
    """A copy of the archive with other contents of its entries (None: without the entry)."""
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = change(name.partition("/")[2], old.read(name))
            if content is not None:
                new.writestr(name, content)
        for name, content in (add or {}).items():
            new.writestr(f"{old.namelist()[0].partition('/')[0]}/{name}", content)
    return path


def edited(archive: Path, path: Path, edit: Callable[[Any], None], entry: str = "models/model.json") -> Path:
    """A copy of the archive with one of its JSON entries edited."""

    def change(name: str, content: bytes) -> bytes:
        if name != entry:
            return content
        value = json.loads(content)
        edit(value)
        return json.dumps(value).encode()

    return changed(archive, path, change)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_outputs_and_gradients(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    module = lively(make())
    model = Model.load(export(module, shape, tmp_path / "model.pt2"))
    assert model.input_shape == shape
    assert len(model.classes) == (4 if name == "tied" else 3)
    for n in (1, 7):
        x = torch.rand(n, *shape, requires_grad=True)
        expected, got = module(x), model.forward(x)
        torch.testing.assert_close(got, expected)
        for a, b in zip(
            torch.autograd.grad(got.square().sum(), [x, *model.module.parameters()]),
            torch.autograd.grad(expected.square().sum(), [x, *_in_order(module, model.module)]),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def _in_order(module: nn.Module, like: nn.Module) -> list[nn.Parameter]:
    return [module.get_parameter(name) for name, _ in like.named_parameters()]


def test_weights_keep_their_names_and_ties(tmp_path: Path) -> None:
    module = Tied().eval()
    model = Model.load(export(module, (4,), tmp_path / "model.pt2"))
    names = [name for name, _ in model.module.named_parameters()]
    assert set(names) <= set(module.state_dict())
    assert len(names) == 3  # two biases, and the one weight that both layers use


def test_it_trains_cuts_and_switches_modes(archive: Path) -> None:
    model = Model.load(archive, classes=("a", "b", "c"), bounds=None)
    model.module.train()
    model.module.eval()
    assert model.classes == ("a", "b", "c")
    x = model.probe()
    for place in model.slices():
        cut = model.slice(place)
        assert torch.equal(cut.g(cut.h(x)), model.forward(x)), place
    optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)
    before = model.fingerprint()
    model.forward(x).logsumexp(1).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert model.fingerprint() != before


def test_a_softmax_at_the_end_is_left_out(tmp_path: Path) -> None:
    linear = nn.Linear(4, 3)
    model = Model.load(export(nn.Sequential(linear, nn.Softmax(dim=1)).eval(), (4,), tmp_path / "model.pt2"))
    x = torch.rand(5, 4)
    torch.testing.assert_close(model.logits(x), linear(x).detach())


def test_a_fixed_batch_is_refused_with_the_remedy(tmp_path: Path) -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(self.linear(x.reshape(x.shape[0], 8)))

    path = export(Fixed().eval(), (2, 4), tmp_path / "model.pt2", dynamic=False)
    with pytest.raises(
        ModelError, match=r'export it again: torch\.export\.save.*dynamic_shapes=\(\{0: .*Dim\("batch"\)'
    ):
        Model.load(path)
    # Where the graph does not depend on the size that it was exported with, that size does no harm.
    path = export(nn.Sequential(nn.Flatten(), nn.Linear(8, 3)).eval(), (2, 4), tmp_path / "m.pt2", dynamic=False)
    assert Model.load(path).logits(torch.rand(5, 2, 4)).shape == (5, 3)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(4), nn.Dropout(0.5)])
def test_an_export_in_train_mode_is_refused(layer: nn.Module, tmp_path: Path) -> None:
    path = export(nn.Sequential(nn.Linear(4, 4), layer, nn.Linear(4, 3)).train(), (4,), tmp_path / "model.pt2")
    with pytest.raises(ModelError, match=r"train mode"):
        Model.load(path)


class Malicious:
    """Unpickling it would end the test run."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[int]]:
        return os._exit, (13,)


def test_pickled_weights_are_refused(archive: Path, tmp_path: Path) -> None:
    def mark(config: Any) -> None:
        next(iter(config["config"].values()))["use_pickle"] = True

    for kind in ("weights", "constants"):
        path = edited(archive, tmp_path / f"{kind}.pt2", mark, f"data/{kind}/model_{kind}_config.json")
        with pytest.raises(ModelError, match="pickled object"):
            Model.load(path)


def test_pickles_beside_the_weights_are_not_read(archive: Path, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(Malicious(), buffer)
    add = {"data/weights/model.pt": buffer.getvalue(), "data/constants/model.pt": pickle.dumps(Malicious())}
    path = changed(
        archive, tmp_path / "m.pt2", lambda name, old: buffer.getvalue() if "sample_inputs" in name else old, add
    )
    x = torch.rand(3, 3, 4)
    assert torch.equal(Model.load(path).logits(x), Model.load(archive).logits(x))


def test_shape_expressions_are_not_evaluated(archive: Path, tmp_path: Path) -> None:
    """torch.export.load hands them to sympify, which evaluates them."""
    code = "__import__('os')._exit(13)"
    path = changed(
        archive,
        tmp_path / "m.pt2",
        lambda name, old: json.dumps(_replaced(json.loads(old), code)).encode() if name.startswith("models/") else old,
    )
    assert code in zipfile.ZipFile(path).read("model/models/model.json").decode()
    assert Model.load(path).input_shape == (3, 4)


def _replaced(value: Any, code: str) -> Any:
    if isinstance(value, dict):
        return {key: code if key == "expr_str" else _replaced(item, code) for key, item in value.items()}
    return [_replaced(item, code) for item in value] if isinstance(value, list) else value


def nodes(program: Any) -> Any:
    return program["graph_module"]["graph"]["nodes"]


@pytest.mark.parametrize(
    "target",
    ["torch.os.system", "torch.ops.higher_order.cond", "torch.ops.aten.nothing.default", "_operator.methodcaller", "x"],
)
def test_other_operators_are_refused_by_name(archive: Path, tmp_path: Path, target: str) -> None:
    path = edited(archive, tmp_path / "m.pt2", lambda program: nodes(program)[1].update(target=target))
    with pytest.raises(ModelError, match=f"does not read: {target}"):
        Model.load(path)


def test_names_in_the_graph_do_not_become_code(archive: Path, tmp_path: Path) -> None:
    code = "x\\n    import os; os._exit(13)"

    def rename(program: Any) -> None:
        text = json.dumps(program).replace('"name": "linear"', f'"name": "{code}"')
        program.clear()
        program.update(json.loads(text))

    path = edited(archive, tmp_path / "m.pt2", rename)
    x = torch.rand(3, 3, 4)
    assert torch.equal(Model.load(path).logits(x), Model.load(archive).logits(x))


def damage_string(program: Any) -> None:
    (gelu,) = [node for node in nodes(program) if ".gelu." in node["target"]]
    gelu["inputs"][-1]["arg"] = {"as_string": "/etc/passwd"}


def damage_name(program: Any) -> None:
    nodes(program)[1]["inputs"][0] = {"name": "a=1); import os #", "arg": {"as_int": 1}, "kind": 2}


def damage_number(program: Any) -> None:
    nodes(program)[0]["inputs"][1]["arg"] = {"as_int": "0"}


@pytest.mark.parametrize("damage", [damage_string, damage_name, damage_number, lambda p: p.pop("graph_module")])
def test_damaged_programs_are_refused(archive: Path, tmp_path: Path, damage: Callable[[Any], None]) -> None:
    with pytest.raises(ModelError, match="is damaged"):
        Model.load(edited(archive, tmp_path / "m.pt2", damage))


def test_another_schema_is_refused(archive: Path, tmp_path: Path) -> None:
    path = edited(archive, tmp_path / "m.pt2", lambda program: program["schema_version"].update(major=7))
    with pytest.raises(ModelError, match="ModelKeep reads little-endian archives of schema 8"):
        Model.load(path)


def test_weights_that_reach_beyond_their_bytes_are_refused(archive: Path, tmp_path: Path) -> None:
    def stretch(config: Any) -> None:
        config["config"]["linear.weight"]["tensor_meta"]["strides"][0]["as_int"] = 10_000

    with pytest.raises(ModelError, match="is damaged"):
        Model.load(edited(archive, tmp_path / "m.pt2", stretch, "data/weights/model_weights_config.json"))


def test_truncated_and_other_archives_are_refused(archive: Path, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    (tmp_path / "half.pt2").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match=r"cannot be read as a torch.export archive"):
        Model.load(tmp_path / "half.pt2")
    with pytest.raises(ModelError, match=r"one exported program.*Found 0"):
        Model.load(changed(archive, tmp_path / "m.pt2", lambda name, old: None if "models/" in name else old))
    with pytest.raises(ModelError, match="is damaged"):
        Model.load(changed(archive, tmp_path / "n.pt2", lambda name, old: None if "weight_0" in name else old))


def test_nan_weights_are_refused(tmp_path: Path) -> None:
    linear = nn.Linear(4, 3).eval()
    with torch.no_grad():
        linear.bias[1] = torch.nan
    with pytest.raises(ModelError, match="NaN or infinite weights in bias"):
        Model.load(export(linear, (4,), tmp_path / "model.pt2"))


def test_more_than_one_input_is_refused(tmp_path: Path) -> None:
    class Two(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Two(), (torch.rand(2, 3), torch.rand(2, 3))), path)
    with pytest.raises(ModelError, match=r"one input.*Got 2 inputs"):
        Model.load(path)
