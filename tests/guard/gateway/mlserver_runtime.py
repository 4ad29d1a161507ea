"""Run by the peers' Python: a model for MLServer that needs numpy only, and gives more than a gateway may."""

from __future__ import annotations

import numpy as np
from mlserver import MLModel  # type: ignore[import-not-found]
from mlserver.codecs import NumpyCodec  # type: ignore[import-not-found]
from mlserver.types import InferenceRequest, InferenceResponse  # type: ignore[import-not-found]


class Linear(MLModel):  # type: ignore[misc]
    """Logits of a fixed linear map, beside a tensor that must never leave."""

    async def load(self) -> bool:
        """Make the weights."""
        self.weights = np.arange(24, dtype=np.float32).reshape(6, 4) % 5 - 2
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """The logits, and the features."""
        x = NumpyCodec.decode_input(payload.inputs[0]).reshape(-1, 6).astype(np.float32)
        outputs = [
            NumpyCodec.encode_output("features", x),
            NumpyCodec.encode_output("logits", x @ self.weights),
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs, parameters={"secret": "0.875"})
