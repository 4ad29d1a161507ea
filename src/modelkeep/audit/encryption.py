"""Can it answer questions that it cannot read, and at what cost?"""

from __future__ import annotations

from math import prod

from modelkeep.audit.cost import Cost
from modelkeep.audit.findings import Finding, Section
from modelkeep.core.data import Data
from modelkeep.core.errors import EncryptError, ModelError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model

TITLE = "Can it answer encrypted questions?"
LEAD = (
    "Under CKKS a server computes on ciphertexts and learns neither the input nor the answer. Only additions and "
    "products are possible: layers must be affine and activations quadratic. The plan of `modelkeep encrypt plan` is "
    "made, with the times of this machine; nothing is encrypted."
)
COMMAND = "modelkeep encrypt plan MODEL --data DATA"
_CALIBRATION = 5.0  # seconds: operations are timed in the ring that the network needs, at most about so long


@declare("check", "encryption", access="weights", paper="Saha2020, chapter 3", extra="encrypt")
class CheckEncryption:
    """Whether the network can run under CKKS as it is, and with what time, bytes and error; or what is in the way."""

    examples: int = setting("Examples whose values say how large numbers get.", default=256, at_least=1)

    def cost(self, model: Model, data: Data) -> Cost:
        """The network is read by its answers to unit vectors; operations are timed once."""
        from modelkeep.encrypt.ckks.network import WIDEST

        width = prod(model.input_shape)
        return Cost(4 * width if width <= WIDEST else 1, seconds=_CALIBRATION, instead=f"`{COMMAND}` runs it alone.")

    def obstacle(self, model: Model, data: Data) -> str:
        """It needs numbers as inputs."""
        return "It computes on numbers, and these inputs are token ids." if model.nest is not None else ""

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Plan it with a sample of the data."""
        from modelkeep.encrypt.ckks.plan import plan_inference

        try:
            made = plan_inference(model, data.sample(min(self.examples, len(data)), seed).load()).plan
        except (EncryptError, ModelError) as error:
            return Section(TITLE, LEAD, findings=(_refused(error),))
        told = made.predicted
        times = f"{told.seconds:,.2g} s" if told.seconds >= 1 else f"{1e3 * told.seconds:,.3g} ms"
        finding = Finding(
            id="encryption.can-run",
            severity="good",
            title=f"It can answer an encrypted question in about {times}",
            measured=f"Planned, not run: {times} on one core of this machine, {_tell_bytes(told.input_bytes)} up and "
            f"{_tell_bytes(told.answer_bytes)} down for each question, {_tell_bytes(told.key_bytes)} of keys once. A "
            f"logit is off by {told.error:.1e} at most. Ring n = {made.parameters.degree}, {len(made.layers)} affine "
            "maps, 128-bit security.",
            meaning="A client can ask without showing the input. The answers teach as much as before: a copy can be "
            "made of them, and members can be found.",
            remedy="`modelkeep encrypt serve MODEL --data DATA` serves it.",
            access="weights",
            command=COMMAND,
        )
        return Section(TITLE, LEAD, findings=(finding,))


def _refused(error: Exception) -> Finding:
    return Finding(
        id="encryption.as-it-is-not",
        severity="unclear",
        title="As it is, it cannot answer encrypted questions",
        measured=str(error),
        meaning="Clients must show their inputs. That is a matter only where they should not.",
        remedy="`modelkeep encrypt plan --replace` puts quadratics for activations and average for max-pools, and "
        "trains the model on.",
        access="weights",
        command=COMMAND,
        fix="modelkeep encrypt plan MODEL --data DATA --replace",
    )


def _tell_bytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"
