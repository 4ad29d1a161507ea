"""`modelkeep govern split`, `export` and `assemble`: the weights in pieces, and whole again if all hand theirs over."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelkeep.cli.checks import check_out, check_out_file
from modelkeep.cli.govern.consent import FolderPath
from modelkeep.cli.govern.identity import AgreementFile, Json
from modelkeep.cli.model_options import Seed

if TYPE_CHECKING:
    from torch import Tensor

    from modelkeep import Model
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.folder import Folder


def split(
    model: Annotated[str, typer.Argument(help="A .safetensors file with the weights, or `new` for fresh ones.")],
    folders: Annotated[list[Path], typer.Argument(help="A folder for each party that holds a piece.")],
    *,
    agreement: Annotated[Path, typer.Option(help="The file with the agreement.")],
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Deal the model out: write to each party's folder the piece that it holds.

    The dealer has seen all weights. So deal `new` ones, which are trained together afterwards, or delete the file.
    Folders are the parties' own, or bear their names; then hand each party its piece.safetensors.
    """
    import torch

    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.piece.files import split as deal

    agreed = Agreement.read(agreement)
    places = {_owner(folder): Folder(folder) for folder in folders}
    sys.path.append(str(Path.cwd()))  # for a factory of the user's
    torch.manual_seed(seed)  # fresh weights; this process is ours
    deal(_dealt(agreed, model), agreed, places)
    written = {name: str(place.piece) for name, place in places.items() if place.piece.exists()}
    if as_json:
        typer.echo(json.dumps(written))
        return
    for name, path in written.items():
        typer.echo(f"the piece of '{name}': {path}")
    if model != "new":
        typer.echo(f"{model} still has all of the weights. Delete it, if nobody is to have them alone.")


def export(
    folder: FolderPath = Path(),
    *,
    out: Annotated[Path, typer.Option(help="The folder for the copies.")] = Path("export"),
    as_json: Json = False,
) -> None:
    """Copy out what a party may show: its ledger for an auditor, and its piece if all released it. Also while it runs.

    The ledger is JSON lines, for `govern audit`. The piece is for `govern assemble`: who gets it, and those of all the
    others, has the model. It is written only after `govern release`, and before further updates.
    """
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.ledger import read_ledger
    from modelkeep.govern.piece.files import write_piece
    from modelkeep.govern.piece.release import find_release

    check_out(out)
    party = Folder(folder)
    name, agreed = party.public().name, party.signed_agreement()
    written = {"ledger": out / f"{name}.ledger.jsonl"}
    try:
        out.mkdir(parents=True, exist_ok=True)
        read_ledger(party.ledger).export(written["ledger"])
    except OSError as error:
        raise GovernError(f"'{out}' cannot be written: {error.strerror}.") from error
    step, tensors = _current(party)
    released = find_release(read_ledger(party.ledger))
    current = released is not None and released.of.step == step
    if tensors and current:
        written["piece"] = write_piece(out / f"{name}.piece.safetensors", agreed, name, tensors, released)
    if as_json:
        typer.echo(json.dumps({"step": step, **{kind: str(path) for kind, path in written.items()}}))
        return
    for kind, path in written.items():
        typer.echo(f"the {kind}: {path}" + f" (after {step} updates)" * (kind == "piece"))
    if tensors and not current:
        typer.echo(f"not the piece after {step} updates: all parties have to release it first (govern release)")


def assemble(
    agreement: AgreementFile,
    pieces: Annotated[list[Path], typer.Argument(help="What `govern export` gave each party: NAME.piece.safetensors.")],
    *,
    out: Annotated[Path, typer.Option(help="The file for the whole model.")] = Path("model.safetensors"),
    as_json: Json = False,
) -> None:
    """Put the whole model together, from pieces that were released with the consent of all (`govern release`)."""
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.piece.files import assemble as whole

    check_out_file(out)
    if out.exists():
        raise GovernError(f"'{out}' is there already, and is not overwritten. Name another file with --out.")
    sys.path.append(str(Path.cwd()))  # for a factory of the user's
    model = whole(Agreement.read(agreement), {_holder(path): path for path in pieces})
    saved = model.save(out)
    typer.echo(json.dumps({"model": str(saved)}) if as_json else f"the whole model: {saved}")


def _owner(folder: Path) -> str:
    """Whose folder it is; one that is not there yet bears the party's name."""
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.identity import is_identity, read_public

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise GovernError(f"'{folder}' cannot be made: {error.strerror}.") from error
    return read_public(folder).name if is_identity(folder) else folder.resolve().name


def _dealt(agreed: Agreement, model: str) -> Model:
    """The agreement's network with the weights of the file, or with fresh ones."""
    from dataclasses import fields

    from modelkeep import Model

    if model == "new":
        return agreed.build()
    known = {each.name: getattr(agreed.card, each.name) for each in fields(agreed.card) if each.name != "architecture"}
    return Model.load(str(agreed.card.architecture), weights=model, **known)


def _current(party: Folder) -> tuple[int, dict[str, Tensor]]:
    """The party's part of the weights as it last wrote it down, and after how many updates that was."""
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.piece.checkpoints import Checkpoints

    kept = Checkpoints(party.checkpoints)
    if not kept.steps():
        raise GovernError(f"'{party.path}' has no checkpoint yet: the party was never started.")
    step = kept.steps()[-1]
    return step, kept.read(step).part("piece/")


def _holder(path: Path) -> str:
    """Whose piece it is, as the file says; `assemble` checks it."""
    from safetensors import SafetensorError, safe_open

    from modelkeep.core.errors import GovernError

    try:
        with safe_open(path, framework="pt") as file:
            return str((file.metadata() or {}).get("party", ""))
    except (OSError, SafetensorError) as error:
        raise GovernError(f"The piece '{path}' cannot be read: {error}. Is it complete?") from error
