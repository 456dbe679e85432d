-- Loads the Parquet files of the click stream; {files} is a pattern such as clicks/sale_id=*/hour=*/*.parquet.
-- For S3 replace file(…) by s3('https://bucket.s3.amazonaws.com/clicks/sale_id=*/hour=*/*.parquet').
INSERT INTO clicks (at, sale_id, kind, visitor, step, reason, status)
SELECT at, decodeURLComponent(extract(_path, 'sale_id=([^/]+)')), kind, visitor, step, reason, status
FROM file('{files}', Parquet, 'at DateTime64(3, \'UTC\'), kind String, visitor String, step String, reason String, status UInt16');
