"""Parties that serve in threads of the test's own process, and take requests of commands."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from modelkeep import Data
from modelkeep.govern.folder import Folder
from modelkeep.govern.session.control import ControlSocket
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.service import serve


@contextmanager
def at_work(*folders: Folder, data: Data) -> Iterator[dict[str, Party]]:
    """All of these parties serve, each with its control socket."""
    with ExitStack() as stack:
        stop = threading.Event()
        parties = {}
        for folder in folders:
            party = stack.enter_context(Party(folder, data=[data]))
            control = stack.enter_context(ControlSocket(folder.control))
            thread = threading.Thread(target=serve, args=(party, stop, control))
            thread.start()
            stack.callback(thread.join)
            stack.callback(stop.set)  # before it is waited for
            parties[party.name] = party
        yield parties
