"""The page of metrics, as Prometheus's own parsers read it: its older text format, and OpenMetrics."""

import requests
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

OPENMETRICS = "application/openmetrics-text"


def families(demo, parse, accept):
    answer = requests.get(f"{demo.issuer}/metrics", headers={"Accept": accept}, timeout=15)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(accept)
    return {family.name: family for family in parse(answer.text)}


def test_both_formats_have_the_same_metrics_with_types_and_help(demo):
    requests.get(f"{demo.issuer}/api/subscription", timeout=15)
    older, newer = families(demo, plain, "text/plain"), families(demo, openmetrics, OPENMETRICS)
    # The older format has no type for information.
    names = {name.removesuffix("_info") for name in older}
    assert names == set(newer) and len(names) > 50
    for family in [*older.values(), *newer.values()]:
        assert family.type in ("counter", "gauge", "histogram", "info"), family
        assert family.documentation.endswith("."), family
    labels = {"method": "GET", "route": "/api/subscription", "status": "4xx"}
    for found in (older, newer):
        samples = found["sarsen_http_requests"].samples
        assert [sample.value for sample in samples if sample.labels == labels] == [1.0]
    assert newer["sarsen_build"].samples[0].labels["version"]
