"""The verifier of certificates: what a receiver runs who trusts neither the sender nor the code that certified.

It needs numpy, and for the signature `cryptography`; it shares no code with the rest of ModelKeep, and this folder runs
alone, wherever it is copied to: `python -m verifier certificate.json --weights model.safetensors --data inputs.npz`.
Read it in this order: `checks.py` (what is checked), `schema.py` (what a certificate may hold), `binding.py` (of which
data and which network it is), `radii.py`, `constants.py` (the bounds), `network.py` and
`arithmetic.py` (the network), `files.py` (the files).

It ends in one of three words. *verified*: the signer is the one that you named, and from the weights and your own data
set everything was computed again. *consistent*: nothing fails of what could be checked without them; it proves nothing
about the model. *refused*: something fails.

What it takes from the sender: that the owner's code is this network also on other inputs than the given, and how much
its float32 pass rounds there (about a millionth of the logits; here it is only seen that a pass rounds no more). And of
a data set that the sender chose it shows what holds for that set.
"""

from __future__ import annotations

from .binding import Given
from .checks import verify
from .files import fingerprint
from .network import Refused
from .report import Check, Report

__all__ = ["Check", "Given", "Refused", "Report", "fingerprint", "verify"]
