"""Attacks on a model that one can only ask: train a proxy on its answers, attack that, and carry the inputs over."""

from __future__ import annotations

from modelkeep.attack.transfer.momentum import Momentum
from modelkeep.attack.transfer.proxy import Proxy, train_proxy
from modelkeep.attack.transfer.proxy_set import ProxySet, proxy_set
from modelkeep.attack.transfer.transfer import Transferred, transfer

__all__ = ["Momentum", "Proxy", "ProxySet", "Transferred", "proxy_set", "train_proxy", "transfer"]
