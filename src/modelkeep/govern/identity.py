"""Identity: a party's name and its Ed25519 key for signing, and what it shows of them to the others.

The agreement names this key. TLS has keys of its own, which this one vouches for (`modelkeep.govern.wire.certificate`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, SerializerFunctionWrapHandler, model_serializer

from modelkeep.core.errors import GovernError, InputError
from modelkeep.core.passphrase import Passphrase
from modelkeep.core.signing import Signer, canonical, is_signed
from modelkeep.govern.documents import read_document, write_document

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")  # what fits into a certificate, a file's name and a line of a log
PUBLIC_KEY = re.compile(r"[0-9a-f]{64}")
KEY, PUBLIC = "key.pem", "identity.json"
_OLD = "certificate.pem"  # version 0.1 kept the name in it
_WHAT = "a party's public identity (<name>.party.json)"


def require_name(name: str, of: str = "a party") -> None:
    """Refuse a name that could be taken for a path, an option or another name."""
    if not NAME.fullmatch(name):
        raise InputError(f"The name of {of} is 1 to 63 of a-z, 0-9 and '-', and begins with no '-'. Got {name!r}.")


@dataclass(frozen=True)
class PublicIdentity:
    """What a party hands to the others: its name, its public key (hexadecimal), and the proof that it has that key.

    `certificate` stands in files and agreements of version 0.1 in place of the proof. It is kept, so that agreements
    keep their fingerprints, and not used.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    public_key: str
    proof: str = ""
    certificate: str = ""

    def __post_init__(self) -> None:
        require_name(self.name)
        if not PUBLIC_KEY.fullmatch(self.public_key):
            raise InputError(f"The public key of '{self.name}' is not 64 hexadecimal digits. Got {self.public_key!r}.")
        if not self.certificate and not is_signed(_claim(self.name), self.proof, self.public_key):
            raise InputError(
                f"Nothing proves that '{self.name}' has the key {self.public_key[:16]}…: it has not signed the proof."
            )

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """All fields but the proof or the certificate, whichever there is none of."""
        values: dict[str, Any] = write(self)
        return {name: value for name, value in values.items() if value or name not in ("proof", "certificate")}

    @classmethod
    def prove(cls, name: str, signer: Signer) -> PublicIdentity:
        """The public identity of who has this signer."""
        require_name(name)
        return cls(name, signer.public_key, signer.sign(_claim(name)))

    @classmethod
    def read(cls, path: str | Path) -> PublicIdentity:
        """Read `<name>.party.json`; one whose key does not vouch for the name is refused."""
        return read_document(cls, Path(path), _WHAT)

    def write(self, path: str | Path) -> Path:
        """Write the file to hand to the others."""
        return write_document(self, Path(path))


@dataclass(frozen=True)
class Identity:
    """Who a party is: only who has the folder, and the passphrase of its key, can sign and speak as this party."""

    name: str
    signer: Signer
    folder: Path

    @classmethod
    def at(cls, folder: str | Path, name: str, passphrase: Passphrase | None = None) -> Identity:
        """The identity `name` in the folder; made there at first use, with `<name>.party.json` for the others.

        A new key is encrypted with the passphrase, if there is one.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     alice = Identity.at(folder, "alice")
        ...     PublicIdentity.read(Path(folder) / "alice.party.json") == alice.public
        True
        """
        from filelock import FileLock

        require_name(name)
        folder = Path(folder)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(folder / ".identity.lock"):  # two that begin at once make one identity
                if not is_identity(folder):
                    PublicIdentity.prove(name, Signer.at(folder / KEY, passphrase)).write(folder / PUBLIC)
                found = cls.read(folder)
        except OSError as error:
            raise GovernError(f"No identity can be made in '{folder}': {error.strerror}.") from error
        if found.name != name:
            raise GovernError(
                f"'{folder}' is the folder of '{found.name}', not of '{name}'. Each party has a folder of its own."
            )
        found.hand_over()
        return found

    @classmethod
    def read(cls, folder: str | Path) -> Identity:
        """The identity that is in the folder. Where its key is encrypted, the passphrase is looked for or asked for."""
        folder = Path(folder)
        if not is_identity(folder) or not (folder / KEY).is_file():
            missing = KEY if is_identity(folder) else PUBLIC
            raise GovernError(f"'{folder}' holds no identity: there is no '{missing}'. Say: modelkeep govern init.")
        signer = Signer.at(folder / KEY)
        if not (folder / PUBLIC).is_file():
            PublicIdentity.prove(_old_name(folder / _OLD), signer).write(folder / PUBLIC)
        public = read_public(folder)
        if public.public_key != signer.public_key:
            raise GovernError(f"'{folder / PUBLIC}' does not fit '{folder / KEY}': it is of another key.")
        return cls(public.name, signer, folder)

    @property
    def public_key(self) -> str:
        """The public key, in hexadecimal."""
        return self.signer.public_key

    @property
    def public(self) -> PublicIdentity:
        """What the others get."""
        return PublicIdentity.prove(self.name, self.signer)

    @property
    def key_file(self) -> Path:
        """The private key (PEM)."""
        return self.folder / KEY

    def hand_over(self) -> Path:
        """The file for the others, which is written where it is not there or is an older one."""
        handed = self.folder / f"{self.name}.party.json"
        if not handed.exists() or PublicIdentity.read(handed) != self.public:
            self.public.write(handed)
        return handed


def is_identity(folder: Path) -> bool:
    """Whether the folder is a party's."""
    return any((folder / file).is_file() for file in (PUBLIC, _OLD))


def read_public(folder: Path) -> PublicIdentity:
    """Whose folder it is. That takes no passphrase."""
    if not (folder / PUBLIC).is_file():
        return Identity.read(folder).public  # of version 0.1: then the key is not encrypted
    return read_document(PublicIdentity, folder / PUBLIC, "a party's public identity")


def _claim(name: str) -> bytes:
    """What proves that a key is of the party of that name."""
    return canonical({"is the key of": name})


def _old_name(certificate: Path) -> str:
    """The name in the certificate of version 0.1."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        return str(found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    except Exception as error:  # a dozen kinds, for all that a damaged file may hold
        raise GovernError(f"'{certificate}' cannot be read as the certificate of a party: {error}.") from error
