"""Ray: the engine for more than one machine. Ray places the jobs; beside each, a `Worker` watches its process.

So a limit, a crash and a seed mean the same as on one machine, and only the driver writes to the ledger.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from modelkeep.core.errors import MissingExtra, StudyError, bad_parameter
from modelkeep.study.local import Job, Outcome, Pool, Worker, import_path


@dataclass(frozen=True)
class Ray:
    """Run trials on the Ray cluster at `address` (None: one that is started on this machine), `threads` each.

    The machines need modelkeep and the trials' modules installed, and the ledger's directory on a shared disk if
    interrupted trials are to go on where they were. Ray listens on the machine's own address, whatever it is told:
    use it in a network that you trust.
    """

    address: str | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise bad_parameter("Ray", "threads", "1 or more", self.threads)

    @contextmanager
    def start(self) -> Iterator[Pool]:
        """The cluster, for the time of the block; one that ran before keeps running."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise MissingExtra("scale", "ray", "Running a study on Ray") from error

        ours = not ray.is_initialized()
        if ours:
            ray.init(address=self.address, include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
        try:
            cluster = _Cluster(ray, self.threads)
            try:
                yield cluster
            finally:
                cluster.cancel()
        finally:
            if ours:
                ray.shutdown()


class _Cluster:
    def __init__(self, ray: Any, threads: int) -> None:
        cores = int(ray.cluster_resources().get("CPU", 0))
        self.slots = cores // threads
        if self.slots < 1:
            raise StudyError(f"A trial wants {threads} threads, but the Ray cluster has {cores} cores.")
        self._ray, self._threads = ray, threads
        self._refs: dict[Future[Outcome], Any] = {}
        # The ledger counts the retries, so Ray must not add its own.
        self._remote = ray.remote(_supervise).options(num_cpus=threads, max_retries=0)

    def submit(self, job: Job) -> Future[Outcome]:
        ref = self._remote.remote(job, self._threads, import_path())
        future: Future[Outcome] = ref.future()
        self._refs[future] = ref
        future.add_done_callback(self._refs.pop)
        return future

    def cancel(self) -> None:
        for ref in list(self._refs.values()):
            self._ray.cancel(ref, force=True)


def _supervise(job: Job, threads: int, path: tuple[str, ...]) -> Outcome:
    return _worker(threads, path).run(job)


@cache
def _worker(threads: int, path: tuple[str, ...]) -> Worker:
    # Ray reuses its processes, and each keeps its worker: torch is imported once per process, not once per trial.
    return Worker(threads, path)
