"""Starts the click stream."""

from collections.abc import Callable

from holdfast.settings import Settings
from holdfast.streams.clicks.click import Naming
from holdfast.streams.clicks.kafka_sink import KafkaSink
from holdfast.streams.clicks.parquet_sink import ParquetSink
from holdfast.streams.clicks.recorder import ClickRecorder, Sink
from holdfast.streams.kafka.kafka_url import parse_kafka_url


def start_clicks(settings: Settings, sale_of_sku: Callable[[str], str | None]) -> ClickRecorder | None:
    """None if clicks go nowhere. The caller has to stop it."""
    if not settings.click_sinks:
        return None
    sinks: list[Sink] = [
        KafkaSink(parse_kafka_url(settings.kafka_url)) if sink == "kafka" else ParquetSink(sink)
        for sink in settings.click_sinks
    ]
    recorder = ClickRecorder(sinks, Naming(settings.signing_key_text().encode(), sale_of_sku))
    recorder.start()
    return recorder
