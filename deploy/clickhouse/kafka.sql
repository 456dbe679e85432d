-- Feeds `clicks` from Kafka. Replace the broker; `at` is in milliseconds there.
CREATE TABLE IF NOT EXISTS clicks_queue
(
    at      Int64,
    sale_id String,
    kind    String,
    visitor String,
    step    String,
    reason  String,
    status  UInt16
)
ENGINE = Kafka
SETTINGS kafka_broker_list = 'kafka:9092', kafka_topic_list = 'holdfast.clicks',
         kafka_group_name = 'clickhouse', kafka_format = 'JSONEachRow', kafka_skip_broken_messages = 100;

CREATE MATERIALIZED VIEW IF NOT EXISTS clicks_from_kafka TO clicks AS
SELECT fromUnixTimestamp64Milli(at, 'UTC') AS at, sale_id, kind, visitor, step, reason, status
FROM clicks_queue;
