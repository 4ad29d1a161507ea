"""Model card: Hugging Face's format, Markdown with YAML front matter. What the audit does not know is marked."""

from __future__ import annotations

import json
from collections.abc import Iterator

from modelkeep.audit.audit import Audit
from modelkeep.audit.formats.format import Format
from modelkeep.audit.formats.markdown import MEASURE_HEADER, code, made_by, measure_rows, plain, table
from modelkeep.core.method import declare

GAP = "GAP"


def gap(what: str) -> str:
    """The mark of something that only the owner of the model can fill in."""
    return f"**{GAP}: {what}**"


def write_model_card(audit: Audit) -> str:
    """The card: the measures as evaluation results, the findings as limitations."""
    return f"---\n{_front_matter(audit)}---\n\n" + "\n\n".join(_parts(audit)) + "\n"


def _front_matter(audit: Audit) -> str:
    """YAML of which each scalar is JSON, so that no name can break it."""
    lines = ["tags:", "- modelkeep", "- security-audit"]
    measures = [each for section in audit.sections for each in section.measures]
    if measures:
        dataset = [f"      type: {json.dumps(audit.data_name or 'unknown')}", f"      name: {_name(audit.data_name)}"]
        lines += ["model-index:", f"- name: {_name(audit.model_name)}", "  results:", "  - task:"]
        lines += ["      type: other", "      name: classification", "    dataset:", *dataset, "    metrics:"]
        for each in measures:
            # Hugging Face's metrics have fixed names; only accuracy is one of them.
            kind = "accuracy" if each.name == "accuracy" else "modelkeep"
            lines += [f"    - type: {kind}", f"      value: {each.estimate.value!r}", f"      name: {_name(each.name)}"]
    return "\n".join(lines) + "\n"


def _name(text: str) -> str:
    return json.dumps(" ".join(text.split()) or "unknown")


def _parts(audit: Audit) -> Iterator[str]:
    yield f"# Model card of {plain(audit.model_name)}"
    yield f"A draft from an audit. What it does not know is marked {GAP}."
    yield "## Model details"
    yield plain(audit.description)
    yield gap("who developed the model, its licence, and its architecture in words")
    yield "## Uses"
    yield gap("intended uses, intended users, and uses that are out of scope")
    yield "## Training data"
    if audit.train_name:
        yield f"The audit was given '{plain(audit.train_name)}' as training data."
    yield gap("where the training data come from, and how they were prepared")
    yield "## Evaluation"
    yield f"Data: {plain(audit.data_name)}."
    measures = [each for section in audit.sections for each in section.measures]
    yield table(MEASURE_HEADER, measure_rows(measures)) if measures else gap("nothing was measured")
    yield "## Bias, risks and limitations"
    yield plain(audit.verdict.line)
    shown = [each for each in audit.findings if each.status in ("fail", "inconclusive")]
    if shown:
        rows = [[each.status, each.severity, f"{each.title}. {each.measured}", each.remedy] for each in shown]
        yield table(("status", "severity", "finding", "what to do"), rows)
    skipped = [each.check for each in audit.findings if each.skipped]
    if skipped:
        yield gap(f"not looked at: {plain(', '.join(skipped))}")
    yield "## Environmental impact"
    yield gap("hardware, hours and emissions of the training")
    yield "## How this was measured"
    yield plain(made_by(audit))
    if audit.command:
        yield code(audit.command)


MODEL_CARD = declare("report-format", "model-card", does="A model card in Hugging Face's format")(
    Format("model-card.md", write_model_card)
)
