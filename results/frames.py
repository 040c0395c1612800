"""A run's tables as pandas frames, for notebooks and reports."""

from typing import TYPE_CHECKING

from results import queries
from results.database import translated
from results.reader import Reader

if TYPE_CHECKING:
    import pandas as pd


def candidates_frame(reader: Reader) -> "pd.DataFrame":
    """One row per candidate in the order of asking; columns as in ``results.rows.CandidateRow``."""
    return _frame(reader, f"{queries.CANDIDATES} WHERE {queries.OWN} ORDER BY c.step_number")


def steps_frame(reader: Reader) -> "pd.DataFrame":
    """One row per step in the order of asking; columns as in ``results.rows.StepRow``."""
    return _frame(reader, f"{queries.STEPS} ORDER BY s.number")


def _frame(reader: Reader, query: str) -> "pd.DataFrame":
    import pandas as pd

    with translated(reader.folder):
        return pd.read_sql_query(query, reader.connection)
