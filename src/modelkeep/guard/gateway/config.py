"""The gateway's settings: one TOML file, checked as a whole, with every error at once. Secrets are never in it."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, ValidationError, create_model, field_validator, model_validator

from modelkeep.core.errors import GuardError, InputError
from modelkeep.core.registry import declarations
from modelkeep.guard.gateway.defence_table import DefenceTable, Section, defence_table
from modelkeep.guard.store import Store, open_store

_Port = Annotated[int, Field(ge=1, le=65535)]
Size = Annotated[int, Field(ge=1)]


DEFAULT_DEFENCE = "modelguard-s"


class ServerTable(Section):
    """Where the gateway listens, and how much it takes at once."""

    host: str = "127.0.0.1"
    port: _Port = 8000
    grpc_port: _Port | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    max_body: Annotated[int, Field(ge=1024)] = 16 * 2**20
    max_json: Annotated[int, Field(ge=1024)] = 4 * 2**20
    drain_seconds: Annotated[float, Field(ge=0, le=3600)] = 30.0

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together: give both or neither")
        if self.port == self.grpc_port:
            raise ValueError(f"port and grpc_port must differ, and both are {self.port}")
        return self


class ModelTable(Section):
    """The model: a file or a factory that is run in this process, or an upstream server that speaks the protocol.

    The same name and version means the same answers for ever: change `version` with the weights or the defence.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")] = "model"
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")] = "1"
    path: str | None = None
    weights: Path | None = None
    describe: Path | None = None
    arguments: dict[str, Any] | None = None
    layout: Literal["channels-first", "channels-last"] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    processor: Path | None = None
    bounds: tuple[float, float] | Literal["none"] | None = None
    device: str = "cpu"
    upstream: str | None = None
    upstream_model: str | None = None
    input: str = "input"
    input_shape: tuple[Size, ...] | None = None
    dtype: Literal["FP32", "FP64"] = "FP32"
    output: str = "probabilities"
    kind: Literal["probabilities", "logits"] = "probabilities"
    classes: int | tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if (self.path is None) == (self.upstream is None):
            raise ValueError("give either path (a model to run here) or upstream (a server's http:// address)")
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std belong together: give both or neither")
        if self.upstream is not None:
            if urlsplit(self.upstream).scheme not in ("http", "https"):
                raise ValueError("upstream must be an http:// or https:// address")
            missing = [name for name in ("input_shape", "classes") if getattr(self, name) is None]
            if missing:
                raise ValueError(f"with upstream, {' and '.join(missing)} must be given: they are not guessed")
        return self


class StoreTable(Section):
    """Where the durable state is: `sqlite:///file` next to this file, or `postgresql://host/database`."""

    url: str = "sqlite:///modelkeep-guard.sqlite3"

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            password = parts.password
        except ValueError as error:
            raise ValueError("must be an address such as sqlite:///state.sqlite3") from error
        if password is not None:
            raise ValueError("must not hold a password: put it into ~/.pgpass, $PGPASSFILE or $PGPASSWORD")
        if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
            return url
        if parts.scheme in ("postgresql", "postgres"):
            return url
        raise ValueError("must be sqlite:///FILE or postgresql://USER@HOST/DATABASE")


class PrincipalsTable(Section):
    """Who may ask: the holders of keys, or with `open` everybody."""

    open: bool = False


class DetectionTable(Section):
    """Whether principals are scored by how much their queries look like a thief's; better with `data` of the owner."""

    enabled: bool = True
    data: str | None = None


class DashboardTable(Section):
    """What the operator's page shows besides: a curve of fidelity against queries that `modelkeep extract` wrote."""

    fidelity_curve: Path | None = None


class Config(Section):
    """All settings of a gateway."""

    server: ServerTable = ServerTable()
    model: ModelTable
    defence: DefenceTable
    store: StoreTable = StoreTable()
    principals: PrincipalsTable = PrincipalsTable()
    detection: DetectionTable = DetectionTable()
    dashboard: DashboardTable = DashboardTable()
    _folder: Path = PrivateAttr(Path())

    def at(self, path: str | Path) -> Path:
        """A path of the settings; relative ones start in the file's own folder."""
        return self._folder / path


def read_config(path: Path) -> Config:
    """The settings in a file, or one error that names all that is wrong with it."""
    return parse_config(read_toml(path), str(path), path.resolve().parent)


def read_toml(path: Path) -> dict[str, Any]:
    """What a file says, before it is checked."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GuardError(f"{path} cannot be read: {error.strerror}. Write one with: modelkeep guard init") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GuardError(f"{path} is not TOML: {error}.") from error


def parse_config(given: dict[str, Any], where: str, folder: Path) -> Config:
    """Settings as a file would give them, checked as a whole.

    >>> parse_config({"model": {"path": "m.safetensors"}, "server": {"prot": 80, "port": 0}}, "guard.toml", Path())
    Traceback (most recent call last):
    modelkeep.core.errors.GuardError: guard.toml has 2 errors:
      server.port must be greater than or equal to 1. Got 0.
      server.prot is not a setting. Did you mean 'port'? Allowed: host, port, grpc_port, tls_certificate, tls_key, max_body, max_json, drain_seconds.
    """  # noqa: E501
    errors: list[str] = []
    table = given.get("defence", {"name": DEFAULT_DEFENCE})
    defence = DefenceTable
    if isinstance(table, dict):
        try:
            defence = defence_table(str(table.get("name", "")))
            table = {**table, "name": defence.model_fields["name"].default}  # a file may have an old name
        except InputError:
            names = ", ".join(declarations("guard"))
            if "name" in table:
                errors.append(f"defence.name must be one of {names}. Got {table['name']!r}.")
            else:
                errors.append(f"defence.name is missing. It must be one of {names}.")
            table = {"name": DEFAULT_DEFENCE}  # so that the other tables are checked as well
    kind = create_model("Config", __base__=Config, defence=(defence, ...))
    config = None
    try:
        config = kind.model_validate({**given, "defence": table})
    except ValidationError as error:
        errors += [_sentence(one, kind) for one in error.errors(include_url=False)]
    if config is None or errors:
        errors = list(dict.fromkeys(errors))  # a value that may be one of two kinds fails twice: said once
        count = "an error" if len(errors) == 1 else f"{len(errors)} errors"
        raise GuardError("\n  ".join([f"{where} has {count}:", *errors])) from None
    config._folder = folder
    return config


def open_configured_store(config: Config) -> Store:
    """The store that the settings name; a relative path starts in the file's own folder."""
    scheme, _, path = config.store.url.partition(":///")
    return open_store(f"sqlite:///{config.at(path).absolute()}" if scheme == "sqlite" else config.store.url)


def _sentence(error: Any, kind: type[Config]) -> str:
    """One of pydantic's errors as a sentence that names the key, what was got and what is allowed."""
    place, fault = tuple(error["loc"]), error["type"]
    keys = _keys(place, kind)
    name = ".".join(map(str, place))
    if fault == "extra_forbidden":  # its value may be a secret, so it is not shown
        near = difflib.get_close_matches(str(place[-1]), keys, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        return f"{name} is not a setting.{hint} Allowed: {', '.join(keys)}."
    if fault == "missing":
        told = None if len(place) == 1 else _table(place, kind).model_fields[str(place[-1])].description
        return f"{name} is missing{'.' if told is None else f': {told}'}"
    if fault == "value_error":  # of a whole table or of an address that may hold a password: nothing of it is shown
        return f"{name}: {error['ctx']['error']}."
    if fault == "model_type":
        return f"{name} must be a table: write [{name}] and its settings below. Got {error['input']!r}."
    if place[:2] == ("model", "classes"):
        return "model.classes must be how many there are, or a list of their names."
    allowed = error["msg"].replace("Input should", "must").replace("String should", "must")
    return f"{name} {allowed}. Got {error['input']!r}."


def _keys(place: tuple[int | str, ...], kind: type[Config]) -> list[str]:
    """The keys that are allowed where the last part of `place` is."""
    if len(place) == 1:
        return list(Config.model_fields)
    return list(_table(place, kind).model_fields)


def _table(place: tuple[int | str, ...], kind: type[Config]) -> type[Section]:
    table = kind.model_fields[str(place[0])].annotation
    return table if isinstance(table, type) and issubclass(table, Section) else Section
