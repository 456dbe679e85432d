-- The click stream in ClickHouse (docs/CLICKS.md). Rows are kept for 90 days.
CREATE TABLE IF NOT EXISTS clicks
(
    at      DateTime64(3, 'UTC'),
    sale_id LowCardinality(String),
    kind    LowCardinality(String),
    visitor String,
    step    LowCardinality(String),
    reason  LowCardinality(String),
    status  UInt16
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(at)
ORDER BY (sale_id, kind, at)
TTL toDateTime(at) + INTERVAL 90 DAY;
