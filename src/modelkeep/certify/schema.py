"""The certificate's schema: plain values with names, versioned; how it is signed, and how it is written to a file."""

from __future__ import annotations

import json
from operator import not_
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from modelkeep.core.errors import InputError
from modelkeep.core.files import replace_file
from modelkeep.core.norms import Norm
from modelkeep.core.results import Estimate
from modelkeep.core.signing import Signer, canonical


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


class Made(_Plain):
    """When, and by which versions."""

    time: str
    modelkeep: str
    torch: str
    python: str


class CertifiedModel(_Plain):
    """What was certified: the network as its owner knows it, and what its loading warned of."""

    name: str
    fingerprint: str
    input_shape: list[int]
    classes: list[str]
    mean: list[float]
    std: list[float]
    dtype: str
    # Left out where it is empty, so that the signatures of older certificates still hold.
    warnings: Annotated[list[str], Field(exclude_if=not_)] = []


class StoredOperation(_Plain):
    """One operation, as `modelkeep.certify.operations` explains them."""

    name: str
    kind: str
    inputs: list[str]
    shape: list[int]
    settings: dict[str, Any]
    tensors: dict[str, str]


class StoredTensor(_Plain):
    """A weight: its bytes, as a safetensors file holds them, have this hash."""

    dtype: str
    shape: list[int]
    sha256: str


class Weights(_Plain):
    """All tensors that the operations use; `sha256` is over their records as canonical JSON."""

    sha256: str
    tensors: dict[str, StoredTensor]


class Layer(_Plain):
    """The constant of an affine stretch that ends with the operation `end`."""

    name: str
    end: str
    bound: float


class RoundingBound(_Plain):
    """How far the network's own margins are from exact ones, given the ℓ2 sizes of its `values` at an input.

    At most `apart` · ⟨carried, sizes⟩ + `lengths` · ⟨made, sizes⟩ + `constant`, (m, m) each; where the input moves by a
    unit in ℓ2, a size moves by at most its `gain`.
    """

    values: list[str]
    gains: list[float]
    carried: list[float]
    made: list[float]
    apart: list[list[float]]
    lengths: list[list[float]]
    constant: list[list[float]]


class Promise(_Plain):
    """The guarantee: `k` is that of "top-k", `groups` are the affinity sets, as labels."""

    kind: Literal["standard", "top-k", "affinity"]
    k: int | None = None
    groups: list[list[int]] | None = None


class Example(_Plain):
    """One input: the hash of its float32 bytes, what the network says, and how far (no limit: null) that holds.

    `logits` are those of the operations in float64, `computed` those of the network itself; `carried` and `made` are
    the sums of sizes that the rounding bound needs.
    """

    sha256: str
    label: int | None
    predicted: int
    logits: list[float]
    computed: list[float]
    carried: float
    made: float
    radius: float | None


class Summary(_Plain):
    """How many inputs there are, are certified at the radius, have a label, and have it within what is certified."""

    examples: int
    certified: int
    labelled: int
    verified: int

    @property
    def verified_accuracy(self) -> Estimate | None:
        """VRA, RTK VRA or affinity VRA, as the guarantee is."""
        return Estimate.rate(self.verified, self.labelled) if self.labelled else None


class DataSet(_Plain):
    """The whole data set: how many rows it has, and which of them were drawn by the seed (all: null)."""

    name: str
    rows: int
    seed: int
    chosen: list[int] | None


class Binding(_Plain):
    """The hash of the network (classes, preprocessing, type, operations, weights) and that of the whole data set.

    Of the data set: the hashes of its inputs in order, each with its label, and the names of the classes.
    """

    network: str
    data: str


class Certificate(_Plain):
    """Everything that a verifier needs beside the weights and the inputs. Raise `version` when a field changes.

    Version 1 had no `data` and `binds`: what it is of could be changed by who signs again.
    """

    format: Literal["modelkeep certificate"] = "modelkeep certificate"
    version: Literal[1, 2] = 2
    made: Made
    model: CertifiedModel
    operations: list[StoredOperation]
    weights: Weights
    norm: Norm
    radius: float
    guarantee: Promise
    layers: list[Layer]
    margins: list[list[float]]
    rounding: RoundingBound
    slack: float
    summary: Summary
    data: Annotated[DataSet | None, Field(exclude_if=not_)] = None
    binds: Annotated[Binding | None, Field(exclude_if=not_)] = None
    inputs: list[Example]
    public_key: str = ""
    signature: str = ""

    def sign(self, signer: Signer) -> Certificate:
        """The same, with the public key and the signature of all the rest."""
        keyed = self.model_copy(update={"public_key": signer.public_key, "signature": ""})
        content = keyed.model_dump(mode="json", exclude={"signature"})
        return keyed.model_copy(update={"signature": signer.sign(canonical(content))})

    def write(self, path: Path) -> Path:
        """Write it whole or not at all: a line per field, operation and input."""
        content = self.model_dump(mode="json")
        lines = [f"{json.dumps(name)}: {_lines(value)}" for name, value in content.items()]
        try:
            with replace_file(path) as unfinished:
                unfinished.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"'{path}' cannot be written: {error.strerror}.") from error
        return path


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return "[\n" + ",\n".join(f" {json.dumps(item, ensure_ascii=False)}" for item in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)
