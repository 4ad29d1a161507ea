"""Commands name the files that were audited, as a shell takes them."""

from __future__ import annotations

import shlex
from pathlib import Path

from modelkeep.audit.sources import Sources


def test_a_command_is_filled_in_with_what_the_user_named() -> None:
    sources = Sources("my net.onnx", "test.csv", "a;b.csv", "--label 'the class'")
    told = sources.fill("modelkeep privacy MODEL --members TRAIN --non-members DATA --seed 0")
    assert shlex.split(told) == [
        "modelkeep", "privacy", "my net.onnx", "--label", "the class", "--members", "a;b.csv", "--non-members",
        "test.csv", "--seed", "0",
    ]  # fmt: skip


def test_what_was_not_named_stays_a_placeholder_and_words_stay_whole() -> None:
    assert Sources(data="digits").fill("modelkeep audit MODEL --data DATA --out DATABASE") == (
        "modelkeep audit MODEL --data digits --out DATABASE"
    )


def test_only_a_file_that_exists_is_the_models_file(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"")
    assert Sources(str(tmp_path / "a.safetensors")).model_file == tmp_path / "a.safetensors"
    assert Sources("resnet50").model_file is None
    assert Sources().model_file is None
