"""`modelkeep ui` refuses in a sentence; tests/web has it running."""

from __future__ import annotations

import socket
from pathlib import Path

from cli.running import Run


def test_what_cannot_be_served_is_said(modelkeep: Run, tmp_path: Path) -> None:
    folder = ("--folder", str(tmp_path / "runs"), "--no-browser")
    assert "Name the model and its data" in modelkeep("ui", "digits-cnn", *folder).err
    assert "no-such.onnx" in modelkeep("ui", "no-such.onnx", "--data", "digits", *folder).err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = modelkeep("ui", "--port", port, *folder)
    assert refused.code == 4
    assert f"Port {port} cannot be used" in refused.err
    assert not (tmp_path / "runs").exists()
