"""`modelkeep encrypt serve`: answer encrypted questions until Ctrl-C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from modelkeep.cli.encrypt.preparation import Packing, Samples, SomeData, Tolerance, load
from modelkeep.cli.guard.keys import StoreUrl, open_store
from modelkeep.cli.model_options import ModelOptions, ModelSource, with_model_options


@with_model_options
def serve(
    model: ModelSource,
    data: SomeData = None,
    *,
    options: ModelOptions,
    packing: Packing = None,
    samples: Samples = 1,
    tolerance: Tolerance = 1e-4,
    host: Annotated[str, typer.Option(help="Where to listen; this machine only by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="For HTTP.")] = 8443,
    sessions: Annotated[
        int | None,
        typer.Option(min=1, help="How many clients' keys are kept; the quietest go first. At most 16 in 4 GB."),
    ] = None,
    access: Annotated[
        Path | None, typer.Option(help="An access policy (.toml): only keys that may 'ask' by its rules are answered.")
    ] = None,
    store: StoreUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Serve a model for encrypted inputs until Ctrl-C or SIGTERM. The log shows all that the server sees.

    Clients make their own keys and keep the secret one. The server gets ciphertexts and public keys, and computes in
    a worker process: a crash there is logged, told to the client, and survived. On another host than this machine, put
    TLS in front. With --access, keys are those of `modelkeep guard keys`, and each request counts as one query.
    """
    from modelkeep.core import progress
    from modelkeep.encrypt.access.control import AccessControl
    from modelkeep.encrypt.access.policy import AccessPolicy
    from modelkeep.encrypt.ckks.plan import plan_inference
    from modelkeep.encrypt.ckks.server import serve as run
    from modelkeep.encrypt.ckks.service import Service
    from modelkeep.guard.gateway.principals import Principals

    policy = None if access is None else AccessPolicy.read(access)
    with progress.show():
        loaded, examples = load(model, data, options)
        prepared = plan_inference(loaded, examples, packing=packing, samples=samples, tolerance=tolerance)
    service = Service(prepared, sessions=sessions, log=lambda line: typer.echo(line, err=True))
    url, plan = f"http://{host}:{port}", prepared.plan

    def ready() -> None:
        if as_json:
            told = {"url": url, "model": plan.model, "plan": plan.fingerprint(), "worker": service.worker.pid}
            typer.echo(json.dumps(told))
            return
        typer.echo(f"model    {plan.model}")
        typer.echo(f"packing  {plan.packing}, about {1e3 * plan.predicted.seconds:,.0f} ms per request on one core")
        typer.echo(f"Ready: modelkeep encrypt ask {url} --input x.npy --fingerprint {plan.model}")

    if policy is None:
        run(service, host=host, port=port, ready=ready)
        return
    with open_store(None, store) as opened:
        run(service, host=host, port=port, ready=ready, control=AccessControl(policy, Principals(opened)))
