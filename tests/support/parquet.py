"""Parquet files for tests."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def a_parquet(path: Path, rows: int = 1_000, **columns: Any) -> None:
    """A file whose row groups have that many rows."""
    pq.write_table(pa.table(columns), path, row_group_size=rows)
