"""Clicks reach a real broker, and S3-compatible storage."""

import asyncio
from collections.abc import Iterator

import pytest
from kafka_world import Reader, url_of
from pyarrow import fs, parquet

from holdfast.lab.load.kafka_broker import Broker
from holdfast.streams.clicks.click import Click
from holdfast.streams.clicks.kafka_sink import CLICKS, KafkaSink
from holdfast.streams.clicks.parquet_sink import ParquetSink
from holdfast.streams.kafka.client import create_topics

pytestmark = pytest.mark.slow

SOME = [Click(1_700_000_000_000 + number, "drop", "join", f"v{number}", "join", "", 200) for number in range(50)]


async def test_clicks_are_published_under_their_visitor(broker: Broker) -> None:
    await create_topics(url_of(broker), [CLICKS])
    reader = await asyncio.to_thread(Reader, broker, CLICKS)
    sink = KafkaSink(url_of(broker))
    await asyncio.to_thread(sink.write, SOME)
    await asyncio.to_thread(sink.close)
    await reader.until(lambda: len(reader.of(CLICKS)) >= len(SOME))
    reader.close()
    assert sorted((seen.key, seen.event["sale_id"]) for seen in reader.of(CLICKS)) == sorted(
        (click.visitor, "drop") for click in SOME
    )


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that speaks S3."""
    from moto.server import ThreadedMotoServer

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


def test_clicks_are_put_on_s3_compatible_storage(s3: str) -> None:
    storage = fs.S3FileSystem(endpoint_override=s3, scheme="http", allow_bucket_creation=True, region="us-east-1")
    storage.create_dir("shop")
    options = f"endpoint_override={s3}&scheme=http&region=us-east-1"
    ParquetSink(f"s3://shop/clicks?{options}").write(SOME)
    found = storage.get_file_info(fs.FileSelector("shop/clicks", recursive=True))
    [file] = [one.path for one in found if one.path.endswith(".parquet")]
    assert "/sale_id=drop/hour=2023-11-14T22/" in file
    assert parquet.read_table(file, filesystem=storage, partitioning=None).num_rows == len(SOME)
