"""Is the model's file safe to hand on?"""

from __future__ import annotations

import stat
from hashlib import file_digest
from pathlib import Path

import torch

from modelkeep.audit.cost import Cost
from modelkeep.audit.findings import Finding, Section
from modelkeep.core.data import Data
from modelkeep.core.formats.pickles import recognise
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model

TITLE = "Is its file safe?"
LEAD = "What the model's file is, whether reading it runs code, and whether somebody can tell that it was exchanged."
SIGNATURES = (".sig", ".asc", ".sigstore", ".sigstore.json", ".minisig", ".p7s")


@declare("check", "hygiene", access="labels")
class CheckHygiene:
    """The format, the SHA-256, signatures beside the file, who may write it, and damaged or untrained weights."""

    file: Path | None = setting("The model's file.", default=None)

    def cost(self, model: Model, data: Data) -> Cost:
        """Reading the file once."""
        size = self.file.stat().st_size if self.file is not None and self.file.is_file() else 0
        return Cost(0, seconds=0.05 + size / 5e8)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Look at the file without opening what it holds, and at the weights as they were read."""
        findings = _weights(model)
        lead = LEAD
        if self.file is None:
            findings.append(_no_file())
        else:
            with self.file.open("rb") as opened:
                digest = file_digest(opened, "sha256").hexdigest()
            lead += f" {self.file.name}: {self.file.stat().st_size:,} bytes, SHA-256 {digest}."
            findings += _file(self.file, digest)
        return Section(TITLE, lead, findings=tuple(findings))


def _weights(model: Model) -> list[Finding]:
    named = [(name, each) for name, each in model.module.state_dict().items() if each.is_floating_point()]
    bad = [name for name, each in named if not bool(torch.isfinite(each).all())]
    found = []
    if bad:
        found.append(
            Finding(
                id="hygiene.damaged-weights",
                severity="high",
                title="Some of its weights are not numbers",
                measured=f"{len(bad)} of {len(named)} tensors hold NaN or infinite values: {', '.join(bad[:3])}.",
                meaning="Its answers are wrong, or will be on some inputs.",
                remedy="Take the weights from before they were damaged.",
                weight=1.0,
            )
        )
    if model.untrained:
        found.append(
            Finding(
                id="hygiene.untrained",
                severity="medium",
                title="Some of its weights are random",
                measured=" ".join(model.warnings),
                meaning="A factory drew them, and no weights were given for them.",
                remedy="Give its weights: --weights FILE on the command line, weights=… in Python.",
            )
        )
    return found


def _file(path: Path, digest: str) -> list[Finding]:
    found = []
    pickled = recognise(path)
    if pickled is not None:
        found.append(
            Finding(
                id="hygiene.pickle",
                severity="high" if pickled.kind in ("module", "object") else "medium",
                title="Its file is a pickle: whoever reads it may run what it says",
                measured=f"{path.name} holds a {pickled.kind}, which {pickled.loader} loads"
                + (f" as {pickled.owner}." if pickled.owner else "."),
                meaning="A pickle is a program. Who exchanges the file runs code where it is loaded.",
                remedy="Convert it once to safetensors, and hand that on.",
                fix="modelkeep convert MODEL --out model.safetensors",
                weight=0.8,
            )
        )
    if path.stat().st_mode & stat.S_IWOTH:
        found.append(
            Finding(
                id="hygiene.world-writable",
                severity="medium",
                title="Everybody on this machine may change its file",
                measured=f"{path.name} has the mode {stat.filemode(path.stat().st_mode)}.",
                meaning="Somebody else can put another model in its place.",
                remedy="Take the right away.",
                fix=f"chmod o-w {path.name}",
            )
        )
    beside = [path.name + end for end in SIGNATURES if path.with_name(path.name + end).is_file()]
    if not beside:
        found.append(
            Finding(
                id="hygiene.unsigned",
                severity="low",
                title="Nothing says whether its file is the one that you published",
                measured=f"There is no signature beside {path.name} ({', '.join(SIGNATURES)}). SHA-256: {digest}.",
                meaning="A file that was exchanged would not be noticed.",
                remedy="Publish this hash by another way than the file, or sign the file.",
            )
        )
    elif not found:
        found.append(
            Finding(
                id="hygiene.signature-beside",
                severity="good",
                title="Reading its file runs no code, and a signature is beside it",
                measured=f"{', '.join(beside)}. SHA-256: {digest}.",
                meaning="Whether the signature is good was not checked: that takes the signer's key.",
                remedy="Check the signature with the tool that made it.",
                partial="The signature itself was not checked.",
            )
        )
    return found


def _no_file() -> Finding:
    return Finding(
        id="hygiene.no-file",
        severity="unclear",
        title="The model did not come from a file",
        measured="It was given in memory, by a name, or by an address.",
        meaning="Nothing is known about a file that somebody might load.",
        remedy="Audit the file that you hand on.",
    )
