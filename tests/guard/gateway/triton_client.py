"""Run by the peers' Python: ask a gateway with the real tritonclient, over every transport; print JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException


def asked(library: Any, address: str, key: str, *, binary: bool | None) -> dict[str, Any]:
    """What the client says of the server, and its answer; `binary` is None where the transport has no choice."""
    how = {} if binary is None else {"binary_data": binary}
    header = {"authorization": f"Bearer {key}"}
    with library.InferenceServerClient(address) as client:
        rows = np.array(json.loads(sys.argv[4]), dtype=np.float32)
        tensor = library.InferInput("input", list(rows.shape), "FP32")
        tensor.set_data_from_numpy(rows, **how)
        wish = library.InferRequestedOutput("probabilities", **how)
        answers = [
            client.infer("small", [tensor], outputs=[wish], request_id="7", headers=header),
            client.infer("small", [tensor], model_version="1", headers=header),  # outputs are not named
        ]
        refused = []
        wishes: tuple[dict[str, Any], ...] = (
            {"outputs": [library.InferRequestedOutput("probabilities", class_count=2)]},
            {"outputs": [library.InferRequestedOutput("logits")]},
            {"sequence_id": 5, "sequence_start": True},
            {"headers": {}},
        )
        for more in wishes:
            try:
                client.infer("small", [tensor], **{"headers": header, **more})
                refused.append("answered")
            except InferenceServerException as error:
                refused.append(str(error.status()))
        return {
            "live": client.is_server_live(),
            "ready": client.is_model_ready("small"),
            "other": client.is_model_ready("other") if library is tritonclient.http else False,
            "bits": [answer.as_numpy("probabilities").tobytes().hex() for answer in answers],
            "names": sorted({output["name"] for output in answers[1].get_response()["outputs"]})
            if library is tritonclient.http
            else [output.name for output in answers[1].get_response().outputs],
            "refused": refused,
        }


rest, grpc, key = sys.argv[1:4]
json.dump(
    {
        "json": asked(tritonclient.http, rest, key, binary=False),
        "binary": asked(tritonclient.http, rest, key, binary=True),
        "grpc": asked(tritonclient.grpc, grpc, key, binary=None),
    },
    sys.stdout,
)
