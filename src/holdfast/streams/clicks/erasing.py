"""Erases a buyer from the Parquet files of clicks in a directory: their clicks stay, without a visitor."""

from pathlib import Path

from holdfast.ledger.archive.parquet import load_pyarrow
from holdfast.streams.clicks.click import visitor_of


def erase_clicks(directory: Path, key: bytes, buyer_id: str, *, trial: bool = False) -> int:
    """Returns how many clicks were the buyer's."""
    if not directory.is_dir():
        return 0
    arrow, parquet = load_pyarrow()
    import pyarrow.compute as pc  # noqa: PLC0415 - an extra

    visitor, erased = visitor_of(key, buyer_id), 0
    for path in sorted(directory.glob("sale_id=*/hour=*/*.parquet")):
        table = parquet.ParquetFile(path).read()
        is_theirs = pc.equal(table["visitor"], visitor)
        count = pc.sum(is_theirs).as_py() or 0
        erased += count
        if count and not trial:
            nobody = pc.if_else(is_theirs, arrow.scalar(""), table["visitor"])
            part = path.with_name(f"{path.name}.part")
            parquet.write_table(
                table.set_column(table.column_names.index("visitor"), "visitor", nobody), part, compression="zstd"
            )
            part.rename(path)
    return erased
