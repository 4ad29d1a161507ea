"""What could run code in an archive is never run, and what is damaged is refused."""

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

from modelkeep import Model
from modelkeep.core.errors import ModelError


class Network(nn.Module):
    """With a weight, a constant, a size and a string in its program."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.logits = nn.Linear(12, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x.view(x.shape[0], -1)) * torch.tensor(2.0)
        return torch.as_tensor(self.logits(nn.functional.gelu(x, approximate="tanh")))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good archive, to damage copies of."""
    torch.manual_seed(0)
    program = torch.export.export(
        Network().eval(), (torch.rand(2, 3, 4),), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    path = tmp_path_factory.mktemp("pt2") / "model.pt2"
    torch.export.save(program, path)
    return path


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
