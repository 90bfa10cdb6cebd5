"""A client that openapi-python-client generates from what `counters --openapi` prints calls the example."""

from pathlib import Path

import pytest
from counters import Counters
from generated import package


@pytest.fixture(scope="module")
def counters():
    server = Counters()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def generated(counters, tmp_path_factory):
    description = Path(tmp_path_factory.mktemp("description"), "openapi.json")
    description.write_text(counters.description(), encoding="utf-8")
    with package("generated_counters", "--path", str(description)) as generated:
        yield generated


def test_it_counts(counters, generated):
    register = generated.operation("mutations", "register")
    stranger = generated.client(counters.address, None)
    registered = register(client=stranger, body=generated.RegisterBody(name="Ada")).parsed
    client = generated.client(counters.address, registered.value.token)

    create = generated.operation("mutations", "create_counter")
    counter = create(client=client, body=generated.CreateCounterBody(name="visits")).parsed.value
    assert isinstance(counter, generated.Counter) and (counter.name, counter.value) == ("visits", 0)

    increment, body = generated.operation("mutations", "increment"), generated.IncrementBody(id=counter.id)
    first = increment(client=client, body=body, idempotency_key="once").parsed
    again = increment(client=client, body=body, idempotency_key="once").parsed
    assert first.value.value == 1 and again.value == first.value

    # What is read with the version of an answer is not older than that.
    listed = generated.operation("queries", "list_counters")(
        client=client, body=generated.ListCountersBody(), sarsen_version=first.version
    )
    assert [(one.name, one.value) for one in listed.parsed.value] == [("visits", 1)]
    assert listed.headers["sarsen-version"] == listed.parsed.version

    refused = generated.operation("queries", "get_counter")(client=client, body=generated.GetCounterBody(id=99))
    assert isinstance(refused.parsed, generated.Problem)
    assert (refused.status_code, refused.parsed.code) == (404, "not_found")
    refused = increment(client=generated.client(counters.address, "wrong"), body=body)
    assert (refused.status_code, refused.parsed.code) == (401, "invalid_token")
