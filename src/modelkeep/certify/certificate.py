"""A certificate: per-input radii and everything that they rest on, for others to check."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from hashlib import sha256

import torch

from modelkeep.certify.arithmetic import plain_kernels
from modelkeep.certify.binding import bind, describe_data, hash_rows
from modelkeep.certify.blocks import Graph
from modelkeep.certify.certification import Certified, Certify
from modelkeep.certify.guarantees import Affinity, Guarantee, RelaxedTopK, Standard
from modelkeep.certify.rounding import Rounding
from modelkeep.certify.schema import (
    Certificate,
    CertifiedModel,
    Example,
    Layer,
    Made,
    Promise,
    RoundingBound,
    StoredOperation,
    StoredTensor,
    Summary,
    Weights,
)
from modelkeep.certify.trace import trace_operations
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.model import Model
from modelkeep.core.signing import canonical
from modelkeep.core.version import __version__

SLACK = 1e-6
"""Each radius is made smaller by this share, because a verifier may sum in another order."""

_DTYPES = {torch.float32: "F32", torch.float64: "F64"}  # as safetensors calls them
_AT_ONCE = 256


def make_certificate(
    method: Certify,
    model: Model,
    data: Data,
    *,
    labelled: bool = True,
    name: str = "model",
    examples: int | None = None,
    seed: int = 0,
) -> Certificate:
    """Certify each input of the data set, and write down what that rests on. It is not signed yet: see `sign`.

    Where it has more than `examples` rows, that many are drawn by the seed (see `binding`). `labelled` says whether the
    labels of the data mean anything.
    """
    whole, hashed = describe_data(data, examples=examples, seed=seed, labelled=labelled)
    if whole.chosen is not None:
        data = data.take(torch.tensor(whole.chosen))
    method = replace(method, relaxation=False)  # a verifier computes the Lipschitz constants again, and no other bounds
    found = method(model, data)
    steps, bounds = trace_operations(model), found.bounds
    rounding, inputs = _rounding(model, bounds.rounding), _examples(model, data, found, labelled)
    preprocessing = model.card.preprocessing
    made = Certificate(
        made=Made(
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            modelkeep=__version__,
            torch=torch.__version__,
            python=platform.python_version(),
        ),
        model=CertifiedModel(
            name=name,
            fingerprint=model.fingerprint(),
            input_shape=list(model.input_shape),
            classes=list(model.classes),
            mean=list(preprocessing.mean),
            std=list(preprocessing.std),
            dtype=str(model.dtype).removeprefix("torch."),
            warnings=list(model.warnings),
        ),
        operations=[StoredOperation.model_validate(json.loads(json.dumps(asdict(step)))) for step in steps],
        weights=_weights(model, sorted({key for step in steps for key in step.tensors.values()})),
        norm=method.norm,
        radius=method.radius,
        guarantee=_promise(method.guarantee),
        layers=[
            Layer(name=layer.name, end=block.name, bound=layer.bound)
            for layer, block in zip(bounds.layers, Graph(steps).blocks, strict=True)
        ],
        margins=bounds.margins.tolist(),
        rounding=rounding,
        slack=SLACK,
        summary=Summary(
            examples=len(inputs),
            certified=sum(example.radius is None or example.radius > method.radius for example in inputs),
            labelled=len(inputs) if labelled else 0,
            verified=int(found.sets.gather(1, data.y[:, None]).sum()) if labelled else 0,
        ),
        data=whole,
        inputs=inputs,
    )
    return bind(made, hashed)


def _rounding(model: Model, rounding: Rounding) -> RoundingBound:
    # The float64 pass rounds, too: as the network does if that is in float64, otherwise half a billion times finer.
    both = (2.0 if model.dtype == torch.float64 else 1 + 1e-8) * (1 + 1e-8)
    return RoundingBound(
        values=list(rounding.values),
        gains=rounding.gains.tolist(),
        carried=rounding.carried.tolist(),
        made=rounding.made.tolist(),
        apart=(rounding.apart * both).tolist(),
        lengths=(rounding.lengths * both).tolist(),
        constant=(rounding.constant * both).tolist(),
    )


def _examples(model: Model, data: Data, found: Certified, labelled: bool) -> list[Example]:
    rounding = found.bounds.rounding
    with plain_kernels(model.device):
        computed = torch.cat([model.logits(x).cpu().double() for x, _ in data.batches(_AT_ONCE)])
    rows = [row for x, _ in data.batches(_AT_ONCE) for row in hash_rows(x)]
    columns = zip(
        *(rows, data.y.tolist(), found.logits, computed),
        *((found.sizes @ rounding.carried).tolist(), (found.sizes @ rounding.made).tolist()),
        (found.radii * (1 - SLACK)).tolist(),
        strict=True,
    )
    return [
        Example(
            sha256=row,
            label=label if labelled else None,
            predicted=int(logits.argmax()),
            logits=logits.tolist(),
            computed=own.tolist(),
            carried=carried,
            made=made,
            radius=radius if math.isfinite(radius) else None,
        )
        for row, label, logits, own, carried, made, radius in columns
    ]


def _weights(model: Model, keys: Sequence[str]) -> Weights:
    tensors = {}
    state = model.module.state_dict()
    for key in keys:
        if key not in state:
            raise ModelError(f"'{key}' is in no state_dict, so that no file holds it. Make it a persistent buffer.")
        tensor = state[key].detach().cpu()
        if tensor.dtype not in _DTYPES:
            raise ModelError(f"Only float32 and float64 weights can be certified. '{key}' is {tensor.dtype}.")
        raw = tensor.contiguous().numpy().tobytes()
        tensors[key] = StoredTensor(
            dtype=_DTYPES[tensor.dtype], shape=list(tensor.shape), sha256=sha256(raw).hexdigest()
        )
    content = {key: tensor.model_dump(mode="json") for key, tensor in tensors.items()}
    return Weights(sha256=sha256(canonical(content)).hexdigest(), tensors=tensors)


def _promise(guarantee: Guarantee) -> Promise:
    match guarantee:
        case Affinity():
            labels = {name: label for label, name in enumerate(guarantee.classes)}
            return Promise(kind="affinity", groups=[[labels[name] for name in group] for group in guarantee.groups])
        case RelaxedTopK():
            return Promise(kind="top-k", k=guarantee.k)
        case Standard():
            return Promise(kind="standard")
    raise InputError(f"A certificate cannot say what a {type(guarantee).__name__} promises.")
