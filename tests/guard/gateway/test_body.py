"""Bodies: gzip is read and bounded, other codings are refused by name, the client's error is told as one."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import orjson
import pytest
import torch

from guard.gateway.gateways import SHAPE, Running, running, small_model, small_service
from modelkeep.guard.gateway.backend import LocalBackend
from modelkeep.guard.gateway.body import check_json_size, decompress
from modelkeep.guard.protocol.tensors import Array
from modelkeep.guard.refusals import Malformed, TooLarge

INFER = "/v2/models/small/infer"


def asked(rows: Array) -> bytes:
    tensor = {"name": "input", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}
    return orjson.dumps({"inputs": [tensor]})


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    service = small_service(tmp_path_factory.mktemp("gateway"))
    service.most_bytes, service.most_json = 1 << 20, 1 << 18
    with running(service) as gateway:
        yield gateway


def test_gzip_is_read_and_other_codings_are_refused_by_name(gateway: Running) -> None:
    body = asked(np.ones((2, *SHAPE), np.float32))
    with httpx.Client(base_url=gateway.url) as client:
        plain = client.post(INFER, content=body).json()
        for coding in ("gzip", "X-GZIP"):
            packed = client.post(INFER, content=gzip.compress(body), headers={"Content-Encoding": coding})
            assert packed.json() == plain
        for coding in ("br", "deflate", "gzip, gzip"):
            refused = client.post(INFER, content=body, headers={"Content-Encoding": coding})
            assert refused.status_code == 415
            assert refused.headers["accept-encoding"] == "gzip, identity"
        bomb = gzip.compress(bytes(1 << 24))
        assert client.post(INFER, content=bomb, headers={"Content-Encoding": "gzip"}).status_code == 413
        assert client.post(INFER, content=body, headers={"Content-Encoding": "gzip"}).status_code == 400


def test_what_gzip_holds_is_never_more_than_was_allowed() -> None:
    packed = gzip.compress(b"x" * 1000)
    assert decompress(packed, 1000) == b"x" * 1000
    with pytest.raises(TooLarge):
        decompress(packed, 999)
    for damaged in (packed[:-3], packed + b"more", zlib.compress(b"x"), b""):
        with pytest.raises(Malformed):
            decompress(damaged, 1000)


def test_numbers_on_which_the_model_overflows_are_the_clients_error(tmp_path: Path) -> None:
    model = small_model()
    with torch.no_grad():
        next(model.module.parameters()).mul_(100)
    with running(small_service(tmp_path, LocalBackend(model))) as gateway, httpx.Client() as client:
        for size, status in ((3e38, 400), (1e5, 200), (0.5, 200)):
            answer = client.post(gateway.url + INFER, content=asked(np.full((1, *SHAPE), size, np.float32)))
            assert answer.status_code == status
            if status == 400:
                assert "holds numbers as large as 3e+38, on which the model overflows" in answer.json()["error"]
        with torch.no_grad():  # a model that fails on what it was trained on is to blame itself
            next(model.module.parameters()).fill_(float("nan"))
        assert client.post(gateway.url + INFER, content=asked(np.ones((1, *SHAPE), np.float32))).status_code == 502


def test_large_json_is_refused_where_binary_data_are_not(gateway: Running) -> None:
    rows = np.random.default_rng(0).random((1000, *SHAPE)).astype(np.float32)
    with httpx.Client(base_url=gateway.url) as client:
        between = client.post(INFER, content=asked(rows))  # read in another thread
        assert between.status_code == 200
        assert len(asked(rows)) > 1 << 16
        padded = asked(rows) + b" " * (1 << 18)
        assert client.post(INFER, content=padded).status_code == 413
    check_json_size(bytes(100), "10", 20)
    for length in (None, "30", "9" * 30, "x"):
        with pytest.raises(TooLarge):
            check_json_size(bytes(100), length, 20)
