"""Models and secrets as settings: a path names them, and a secret that others can read is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelkeep import Model
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, options_of, setting
from modelkeep.core.setting_files import file_setting, make_secret, read_secret, read_setting
from modelkeep.zoo.architectures import dense


@declare("test", "with-files")
class WithFiles:
    """Has one setting of each kind."""

    model: Model = setting("A network.")
    key: bytes | None = setting("A secret.", default=None, repr=False)
    share: float = setting("A number.", default=0.5)


def test_models_and_secrets_are_given_by_paths(tmp_path: Path) -> None:
    model, key, share = options_of(WithFiles)
    assert [file_setting(each) for each in (model, key, share)] == ["model", "key_file", None]
    made: dict[str, Any] = {"input_shape": [4], "classes": 3}
    saved = Model(
        dense(**made), input_shape=(4,), classes=3, architecture="modelkeep.architectures:dense", arguments=made
    )
    path = saved.save(tmp_path / "m.safetensors")
    assert read_setting(model, path).fingerprint() == saved.fingerprint()
    (tmp_path / "key").write_bytes(b"0123456789abcdef\n")
    (tmp_path / "key").chmod(0o600)
    assert read_setting(key, tmp_path / "key") == b"0123456789abcdef"


def test_secrets_come_from_files_of_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    path.chmod(0o644)
    with pytest.raises(InputError, match=r"can be read by others \(mode 0644\). Run: chmod 600"):
        read_secret(path)
    path.chmod(0o600)
    assert read_secret(path) == b"0123456789abcdef0123456789abcdef"
    path.write_text("short")
    with pytest.raises(InputError, match="has 5 bytes, and needs 16 or more") as error:
        read_secret(path)
    assert "'short'" not in str(error.value)
    with pytest.raises(InputError, match=r"cannot be read from .* No such file"):
        read_secret(tmp_path / "none")


def test_a_secret_is_made_once_private_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert make_secret(path)
    first = read_secret(path)  # refuses what others can read
    assert len(first) == 64
    assert not make_secret(path)
    assert read_secret(path) == first
    with pytest.raises(InputError, match="cannot be written"):
        make_secret(tmp_path / "none" / "secret")
