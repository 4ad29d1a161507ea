"""Encrypt: run and train a model on data that it cannot see (Saha2020, chapter 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core.lazy import attach

if TYPE_CHECKING:
    from modelkeep.encrypt.access.control import AccessControl, GuardedApplication
    from modelkeep.encrypt.access.policy import AccessPolicy
    from modelkeep.encrypt.ckks.client import Client
    from modelkeep.encrypt.ckks.plan import plan_inference
    from modelkeep.encrypt.ckks.training import train_on_ciphertexts
    from modelkeep.encrypt.functional.authority import Authority
    from modelkeep.encrypt.functional.inference import FirstLayerServer
    from modelkeep.encrypt.functional.training import FirstLayerGradients
    from modelkeep.encrypt.integers.integer_training import FixedPoint, train_integers
    from modelkeep.encrypt.integers.quantised import quantise
    from modelkeep.encrypt.integers.straight_through import Bits
    from modelkeep.encrypt.integers.tfhe import run_encrypted
    from modelkeep.encrypt.shares.inference import SharedInference, infer_on_shares
    from modelkeep.encrypt.shares.training import SharedTraining, train_on_shares

__all__ = [
    "AccessControl",
    "AccessPolicy",
    "Authority",
    "Bits",
    "Client",
    "FirstLayerGradients",
    "FirstLayerServer",
    "FixedPoint",
    "GuardedApplication",
    "SharedInference",
    "SharedTraining",
    "infer_on_shares",
    "plan_inference",
    "quantise",
    "run_encrypted",
    "train_integers",
    "train_on_ciphertexts",
    "train_on_shares",
]

# Loaded on first use: a client that asks a server must not wait for torch.
if not TYPE_CHECKING:  # a type checker shall know these names and no others
    __getattr__, __dir__ = attach(__name__)
