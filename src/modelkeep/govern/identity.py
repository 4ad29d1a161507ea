"""Identity: a party's Ed25519 key and the certificate of that same key, and what it shows of them to the others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict

from modelkeep.core.errors import GovernError, InputError
from modelkeep.core.files import replace_file
from modelkeep.core.signing import Signer
from modelkeep.govern.documents import read_document, write_document

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")  # what fits into a certificate, a file's name and a line of a log
KEY, CERTIFICATE = "key.pem", "certificate.pem"
VALID = timedelta(days=3650)


def require_name(name: str, of: str = "a party") -> None:
    """Refuse a name that could be taken for a path, an option or another name."""
    if not NAME.fullmatch(name):
        raise InputError(f"The name of {of} is 1 to 63 of a-z, 0-9 and '-', and begins with no '-'. Got {name!r}.")


@dataclass(frozen=True)
class PublicIdentity:
    """What a party hands to the others: its name, its public key (hexadecimal) and its certificate (PEM)."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    public_key: str
    certificate: str

    def __post_init__(self) -> None:
        require_name(self.name)
        _require_certificate(self.certificate, self.name, self.public_key)

    @classmethod
    def read(cls, path: str | Path) -> PublicIdentity:
        """Read `<name>.party.json`; a certificate of another key or of another name is refused."""
        return read_document(cls, Path(path), "a party's public identity (<name>.party.json)")

    def write(self, path: str | Path) -> Path:
        """Write the file to hand to the others."""
        return write_document(self, Path(path))


@dataclass(frozen=True)
class Identity:
    """Who a party is: only who has the folder can sign and speak as this party."""

    name: str
    signer: Signer
    certificate: str
    folder: Path

    @classmethod
    def at(cls, folder: str | Path, name: str) -> Identity:
        """The identity `name` in the folder; made there at first use, with `<name>.party.json` for the others.

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
                if not (folder / CERTIFICATE).exists():
                    Signer.at(folder / KEY)
                    with replace_file(folder / CERTIFICATE) as unfinished:
                        unfinished.write_text(_sign_own_certificate(name, folder / KEY))
                found = cls.read(folder)
        except OSError as error:
            raise GovernError(f"No identity can be made in '{folder}': {error.strerror}.") from error
        if found.name != name:
            raise GovernError(
                f"'{folder}' is the folder of '{found.name}', not of '{name}'. Each party has a folder of its own."
            )
        handed = folder / f"{name}.party.json"
        if not handed.exists() or PublicIdentity.read(handed) != found.public:
            found.public.write(handed)
        return found

    @classmethod
    def read(cls, folder: str | Path) -> Identity:
        """The identity that is in the folder."""
        folder = Path(folder)
        for file in (KEY, CERTIFICATE):
            if not (folder / file).is_file():
                raise GovernError(f"'{folder}' holds no identity: there is no '{file}'. Say: modelkeep govern init.")
        signer = Signer.at(folder / KEY)
        text = (folder / CERTIFICATE).read_text("utf-8", "replace")
        try:
            name = "".join(_read_certificate(text)[1][:1])
            require_name(name)
            _require_certificate(text, name, signer.public_key)
        except InputError as error:
            raise GovernError(f"'{folder / CERTIFICATE}' does not fit '{folder / KEY}': {error}") from error
        return cls(name, signer, text, folder)

    @property
    def public_key(self) -> str:
        """The public key, in hexadecimal."""
        return self.signer.public_key

    @property
    def public(self) -> PublicIdentity:
        """What the others get."""
        return PublicIdentity(self.name, self.public_key, self.certificate)

    @property
    def key_file(self) -> Path:
        """The private key (PEM), as TLS wants it."""
        return self.folder / KEY

    @property
    def certificate_file(self) -> Path:
        """The certificate (PEM), as TLS wants it."""
        return self.folder / CERTIFICATE


def _sign_own_certificate(name: str, key_file: Path) -> str:
    """A certificate that the key gives itself. It has no authority to issue other certificates."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = load_pem_private_key(key_file.read_bytes(), password=None)
    assert isinstance(key, Ed25519PrivateKey)
    itself = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(itself)
        .issuer_name(itself)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # the other machine's clock may be behind
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .sign(key, None)
    )
    return made.public_bytes(Encoding.PEM).decode()


def _read_certificate(text: str) -> tuple[str, list[str]]:
    """The key and the names that a certificate is for, if it is one, alone, and signed by that same key."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    try:
        found = x509.load_pem_x509_certificate(text.encode())
        alone = found.public_bytes(Encoding.PEM).decode() == text
        key = found.public_key()
        names = [str(each.value) for each in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        for extension in found.extensions:
            if isinstance(extension.value, x509.SubjectAlternativeName):
                names += [str(each.value) for each in extension.value]
        found.verify_directly_issued_by(found)
    except InvalidSignature as error:
        raise InputError("The certificate is not signed by its own key.") from error
    except Exception as error:  # a dozen kinds, for all that a foreign file may hold
        raise InputError(f"This is not a certificate in PEM, or it is damaged: {error}.") from error
    if not alone:
        raise InputError("There is more than one certificate in PEM.")
    if not isinstance(key, Ed25519PublicKey):
        raise InputError("The certificate is not of an Ed25519 key.")
    return key.public_bytes_raw().hex(), names


def _require_certificate(text: str, name: str, public_key: str) -> None:
    """Refuse a certificate that is not of, by and for this very key and name."""
    certified, names = _read_certificate(text)
    if certified != public_key:
        raise InputError(
            f"The certificate of '{name}' is of another key ({certified}) than the one named ({public_key})."
        )
    if names != [name, name]:
        raise InputError(f"The certificate of '{name}' names another party: {', '.join(map(repr, names))}.")
