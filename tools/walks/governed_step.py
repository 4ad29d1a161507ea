"""One step of a governed training of two parties in one process. That they meet is in the list, founding it is not."""

import sys
import threading

look, watching = sys.getprofile() or (lambda *seen: None), threading.Event()
sys.setprofile(lambda *seen: look(*seen) if watching.is_set() else None)
threading.setprofile(sys.getprofile())

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from govern.meeting import Meeting
from govern.parties import digits, found
from modelkeep import Model
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.runs import train
from modelkeep.govern.session.service import serve

torch.manual_seed(0)
data, end = digits(64), threading.Event()
model = Model.load("govern.networks:digit_network", like=data)
with TemporaryDirectory() as folder:
    agreed = found(Path(folder), model, data, cuts=["2"], holders=["alice", "bob"], labels="bob")
    together = Meeting(*agreed, {}, "pictures", data)
    with Party(together.folders["bob"], data=[data]) as bob:
        serving = threading.Thread(target=serve, args=(bob, end))
        serving.start()
        with together.alice() as leader:
            train(leader, updates=1)
            watching.set()
            train(leader, updates=2)
            watching.clear()
        end.set()
        serving.join()
