"""Reading what a server counts about itself."""

from http_serving import Server
from prometheus_client.parser import text_string_to_metric_families

Samples = dict[str, dict[str, float]]


def scrape(server: Server) -> Samples:
    """Each sample by name and by the values of its labels, joined."""
    with server.connect(server.environment["HOLDFAST_SERVICE_KEY"]) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    samples: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        samples.setdefault(family.name, {})
        for sample in family.samples:
            samples.setdefault(sample.name, {})[",".join(sample.labels.values())] = sample.value
    return samples
