"""The lines that a refusal prints are run as they stand, where the file was made; then the model loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from core.formats.foreign import network, write_estimators, write_files
from modelkeep import Model
from modelkeep.core.errors import ModelError

SHAPE = (1, 8, 8)


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as refused:
        Model.load(path, input_shape=SHAPE, classes=3)
    return str(refused.value)


def blocks(message: str) -> list[str]:
    """The indented lines of a message, block by block."""
    found: list[list[str]] = [[]]
    for line in message.splitlines():
        if line.startswith("    ") or (not line and found[-1]):
            found[-1].append(line.removeprefix("    "))
        elif found[-1]:
            found.append([])
    return ["\n".join(block).strip() + "\n" for block in found if any(block)]


def run(lines: str, folder: Path) -> None:
    """Run the lines in a process of their own, in the folder where the file was made."""
    (folder / "lines.py").write_text(lines)
    done = subprocess.run([sys.executable, "lines.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{lines}\n{done.stderr}"


def test_the_lines_for_modules_and_torchscript_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(tmp_path)
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, made)
    names = ("module.pt", "old.pt", "plain.pkl", "script.pt", "trace.model")
    messages = {name: refusal(Path(name)) for name in names}
    run("\n".join(block for message in messages.values() for block in blocks(message)), tmp_path)
    x = torch.rand(5, *SHAPE)
    monkeypatch.syspath_prepend(tmp_path)
    for name, message in messages.items():
        exported, weights = [path for path in (Path(f"{Path(name).stem}{end}") for end in ENDS) if path.exists()]
        assert f"name '{exported}' as the model" in message
        model = Model.load(exported, input_shape=SHAPE, classes=3)
        torch.testing.assert_close(model.logits(x), made(x), msg=name)
        assert f"owners_network:Network --weights {weights}" in message
        model = Model.load("owners_network:Network", weights=weights, input_shape=SHAPE, classes=3)
        torch.testing.assert_close(model.logits(x), made(x), msg=name)


ENDS = (".pt2", ".onnx", ".safetensors")


def test_a_shape_that_is_not_known_is_asked_for(tmp_path: Path) -> None:
    torch.save(network(tmp_path), tmp_path / "module.pt")
    with pytest.raises(ModelError, match=r"3, 224, 224\)  # two inputs; .*write yours"):
        Model.load(tmp_path / "module.pt")


def test_weights_alone_are_sent_to_convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(network(tmp_path).state_dict(), tmp_path / "weights.pt")
    monkeypatch.syspath_prepend(tmp_path)
    assert f"modelkeep convert {tmp_path / 'weights.pt'} --factory package.module:factory" in refusal(
        tmp_path / "weights.pt"
    )
    with pytest.raises(ModelError, match="--factory owners_network:Network"):
        Model.load("owners_network:Network", weights=tmp_path / "weights.pt", input_shape=SHAPE, classes=3)


def test_the_lines_for_an_estimator_open_it_in_the_owners_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_estimators(tmp_path)
    message = refusal(tmp_path / "plain.joblib")
    (block,) = blocks(message)
    assert "'plain_model.py'" in message
    (tmp_path / "plain_model.py").write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    import plain_model  # type: ignore[import-not-found]

    assert plain_model.estimator().predict(torch.zeros(2, 5).numpy()).shape == (2,)
