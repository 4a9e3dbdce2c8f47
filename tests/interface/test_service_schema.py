"""For any request, valid or not, the API answers as described in its OpenAPI document, and never with a 5xx."""

import os
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import settings
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import negative_data_rejection

from satchel.server.http.routes import openapi
from service_client import Served

pytestmark = pytest.mark.slow

FUZZ = int(os.environ.get("SATCHEL_FUZZ", "1"))
EXAMPLES = 4 * FUZZ

CONFIG = SchemathesisConfig.from_dict(
    {
        "checks": {
            # What a field means can be wrong where its form is right: a time that is none, pins beyond the budget.
            "positive_data_acceptance": {
                "expected-statuses": ["2xx", "401", "403", "404", "409", "410", "422", "429"]
            },
            # Every route is asked with every kind of token elsewhere; failures by the hundred are slowed down.
            "ignored_auth": {"enabled": False},
        },
        # Each limit of each field takes thousands of cases.
        "phases": {"coverage": {"enabled": FUZZ > 1}},
    }
)
schema = schemathesis.openapi.from_dict(openapi(), config=CONFIG)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("schema"), "--rate", "100000/s") as running:
        memory = running.done("POST", "/v1/memories", {"text": "something to be found"})
        running.done("PATCH", f"/v1/memories/{memory['id']}", {"pinned": True})
        yield running
        assert not any("unexpected" in line for line in running.complaints), running.complaints


@schema.parametrize()
@settings(max_examples=EXAMPLES)
def test_every_answer_is_one_that_the_description_names(case: schemathesis.Case, service: Served):
    # A query has only words: what was meant as a truth or a number is a tag like any other.
    tagged = any(parameter.name == "tags" for parameter in case.operation.query)
    case.call_and_validate(
        base_url=service.url,
        headers={"Authorization": f"Bearer {service.token}"},
        excluded_checks=[negative_data_rejection] if tagged else [],
    )
