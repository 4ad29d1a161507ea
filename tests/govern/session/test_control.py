"""The control socket: its owner's alone, no obstacle when its process was killed, and at home in deep folders."""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from modelkeep.core.errors import GovernError
from modelkeep.govern.session.control import LONGEST_REQUEST, ControlSocket, shorten_address
from modelkeep.govern.session.handover import hand_over
from modelkeep.govern.session.requests import Request

REQUEST = Request(verb="infer", data="digits")


def refuse(path: Path) -> str:
    with pytest.raises(GovernError) as refused:
        hand_over(path, REQUEST, lambda text: None)
    return str(refused.value)


def test_a_socket_that_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    left = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with shorten_address(path) as address:
        left.bind(address)
    left.close()  # as the system does for a process that is killed: the file stays
    assert path.exists()
    assert hand_over(path, REQUEST, lambda text: None) is None
    with ControlSocket(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


def test_another_file_in_its_place_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    path.write_text("mine")
    with pytest.raises(GovernError, match="is not a socket"):
        ControlSocket(path)
    assert path.read_text() == "mine"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says who is at the other end")
def test_another_user_is_refused_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelkeep.govern.session.control._OWNERS", ())
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000 - 1)
    with ControlSocket(tmp_path / "control.sock"):
        assert "may not use this folder" in refuse(tmp_path / "control.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line, line.makefile("rb") as answers:
            with shorten_address(tmp_path / "control.sock") as address:
                line.connect(address)
            assert b"may not use this folder" in answers.readline()


def test_a_deep_folder_has_a_socket_too(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 20) / ("deeper" * 20)
    deep.mkdir(parents=True)
    if not sys.platform.startswith("linux"):
        return
    with ControlSocket(deep / "control.sock") as control, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        with shorten_address(deep / "control.sock") as address:
            line.connect(address)
        line.sendall(b" " * (LONGEST_REQUEST + 1))
        with line.makefile("rb") as answers:
            assert b"A request is one line of JSON" in answers.readline()
        assert control.first() is None
