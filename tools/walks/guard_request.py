"""One request to a gateway that already listens and answers. What starting it takes is not in the list."""

import sys
import threading

look, watching = sys.getprofile() or (lambda *seen: None), threading.Event()
sys.setprofile(lambda *seen: look(*seen) if watching.is_set() else None)
threading.setprofile(sys.getprofile())

from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from guard.gateway.gateways import running, small_service

with TemporaryDirectory() as folder, running(small_service(Path(folder))) as gateway:
    for value in (0.1, 0.9):
        rows = {"name": "input", "shape": [1, 2, 3], "datatype": "FP32", "data": [value] * 6}
        httpx.post(f"{gateway.url}/v2/models/small/infer", json={"inputs": [rows]}).raise_for_status()
        watching.set()  # from the second on
    watching.clear()
