"""The OpenAPI document is true: requests that are drawn from it, right ones and wrong ones, find nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import positive_data_acceptance
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from guard.gateway.gateways import small_service
from modelkeep.guard.gateway.app import create_app
from modelkeep.guard.gateway.principals import add_key
from modelkeep.guard.store.store import Principal

# It does not know that to call a request too large is to refuse it.
CONFIG = schemathesis.Config.from_dict(
    {"checks": {"negative_data_rejection": {"expected-statuses": ["400", "401", "404", "413"]}}}
)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_requests_drawn_from_the_document_find_nothing(tmp_path: Path, mode: GenerationMode) -> None:
    service = small_service(tmp_path, open=False)
    key = add_key(service.principals.store, Principal("ann", queries=None, rate=None))
    schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(service), config=CONFIG)
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) == 9
    seen: Counter[int] = Counter()
    for operation in operations:
        infers = operation.label == "POST /v2/models/{model}/infer"
        if mode is GenerationMode.NEGATIVE and not infers:
            continue  # nothing in a path is wrong, only unknown

        @settings(max_examples=20 if infers else 3, suppress_health_check=list(HealthCheck), database=None)
        @given(operation.as_strategy(generation_mode=mode))
        def check(case: schemathesis.Case[Any]) -> None:
            for model in ("small", case.path_parameters.get("model", "small")):
                if "model" in case.path_parameters:
                    case.path_parameters["model"] = model
                if "version" in case.path_parameters:
                    case.path_parameters["version"] = "1"
                # A schema cannot say that the numbers must be as many as the shape says, so right ones may be refused.
                response = case.call_and_validate(
                    headers={"Authorization": f"Bearer {key}"}, excluded_checks=[positive_data_acceptance]
                )
                seen[response.status_code] += 1

        check()
    assert set(seen) <= {200, 400, 401, 404, 413}
    assert seen[400] > 10
    service.gate.store.close()
