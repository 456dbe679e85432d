"""How brokers are named, and what is refused."""

import pytest

from holdfast.errors import SettingsError
from holdfast.settings import Settings, load_settings
from holdfast.streams.kafka.kafka_url import parse_kafka_url


def test_brokers_are_named_by_host_and_port() -> None:
    url = parse_kafka_url("kafka://one:9092,two:9093")
    assert (url.servers, url.options, url.partitions) == ("one:9092,two:9093", {}, 12)


def test_credentials_mean_sasl_and_are_not_shown() -> None:
    url = parse_kafka_url("kafka+ssl://shop:s%40cret@broker:9093?partitions=50&replication=3&sasl.mechanism=PLAIN")
    assert (url.servers, url.partitions, url.replication) == ("broker:9093", 50, 3)
    assert url.options == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "shop",
        "sasl.password": "s@cret",
    }
    assert "cret" not in repr(url)
    assert parse_kafka_url("kafka+ssl://broker:9093").options == {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    "url",
    [
        "broker:9092",
        "http://broker:9092",
        "kafka://",
        "kafka://broker",
        "kafka://user:secret@broker",
        "kafka://broker:9092/topic",
        "kafka://broker:9092?partitions=0",
        "kafka://broker:9092?replication=many",
    ],
)
def test_a_url_that_names_no_broker_is_refused_at_startup(url: str) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_KAFKA_URL") as refused:
        load_settings(kafka_url=url)
    assert "secret" not in str(refused.value)


def test_kafka_is_off_unless_it_is_set() -> None:
    assert not Settings().has_kafka
    assert Settings(kafka_url="kafka://broker:9092").has_kafka
