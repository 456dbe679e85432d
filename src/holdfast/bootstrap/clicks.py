"""Starts the click stream."""

from holdfast.sales.catalogue import Catalogue
from holdfast.settings import Settings
from holdfast.streams.clicks.click import Naming
from holdfast.streams.clicks.kafka_sink import KafkaSink
from holdfast.streams.clicks.parquet_sink import ParquetSink
from holdfast.streams.clicks.recorder import ClickRecorder, Sink
from holdfast.streams.kafka.kafka_url import parse_kafka_url


def start_clicks(settings: Settings, catalogue: Catalogue) -> ClickRecorder | None:
    """None if clicks go nowhere. The caller has to stop it."""
    if not settings.click_sinks:
        return None
    sinks: list[Sink] = [
        KafkaSink(parse_kafka_url(settings.kafka_url)) if sink == "kafka" else ParquetSink(sink)
        for sink in settings.click_sinks
    ]
    key = settings.signing_key_text().encode()
    naming = Naming(key, lambda sale_id: catalogue.cached(sale_id) is not None, catalogue.newest_sale_of)
    recorder = ClickRecorder(sinks, naming)
    recorder.start()
    return recorder
