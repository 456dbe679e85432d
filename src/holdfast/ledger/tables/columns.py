"""The column types that every table uses, and the metadata they all register with."""

from sqlalchemy import BigInteger, Integer, MetaData, String

metadata = MetaData()

# Ids compare byte by byte on every engine, so that "sorted by id" means the same in Python, SQLite and PostgreSQL.
Id = String().with_variant(String(collation="C"), "postgresql")
Millis = BigInteger
Sequence = BigInteger().with_variant(Integer, "sqlite")
