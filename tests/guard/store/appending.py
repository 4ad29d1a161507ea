"""A process that appends to one log as a replica would, and says what was acknowledged: URL NAME COUNT."""

from __future__ import annotations

import sys
import time

import numpy as np

from modelkeep.core.errors import StoreUnavailable
from modelkeep.guard.store import Store, open_store


def opened(url: str) -> Store:
    while True:
        try:
            return open_store(url)
        except StoreUnavailable:
            time.sleep(0.02)


def append(store: Store, log: list[list[int]], mine: list[int]) -> int:
    """Append what the log does not hold yet, as often as it takes; its position."""
    while True:
        try:
            log += store.centroids("epoch", 0, len(log)).tolist()
            if mine in log:
                return log.index(mine)
            if store.append("epoch", 0, len(log), np.array(mine, dtype=np.int32)):
                log.append(mine)
                return len(log) - 1
        except StoreUnavailable:
            time.sleep(0.02)


def main(url: str, name: int, count: int) -> None:
    """Append (name, 0), (name, 1), … and say at which position each is, only once it is acknowledged."""
    store = opened(url)
    log: list[list[int]] = []
    for number in range(count):
        position = append(store, log, [name, number])
        sys.stdout.write(f"{position} {name} {number}\n")
        sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
