"""Where and how steps ended, counted from the columns: the same rows as ``Reader.funnel``, without a walk over the store."""

import numpy as np

from results.dashboard.codes import ABSENT, NAMES, Flag
from results.dashboard.columns import Columns
from results.queries import STAGES
from results.rows import FunnelRow


def funnel(columns: Columns) -> list[FunnelRow]:
    """Steps by where and how they ended, in the order of the stages, most frequent first within one."""
    kept = (columns["flags"] & int(Flag.REJECTED)) == 0
    repeated = (columns["flags"] & int(Flag.DUPLICATE)) > 0
    stages, verdicts = columns["stage"].astype(int), columns["verdict"].astype(int)
    steps = np.bincount((stages * 512 + verdicts * 2 + repeated)[kept])
    found = {("answer", reason): count for reason, count in columns.rejections.items()}
    for code in steps.nonzero()[0].tolist():
        stage, verdict, twice = code // 512, code // 2 % 256, code % 2
        key = (
            NAMES["stages"][stage] if stage != ABSENT else "recognise" if twice else "waiting",
            NAMES["verdicts"][verdict] if verdict != ABSENT else "DUPLICATE" if twice else "for evaluation",
        )
        found[key] = found.get(key, 0) + int(steps[code])
    rows = [FunnelRow(stage=stage, word=word, steps=count) for (stage, word), count in found.items()]
    return sorted(rows, key=lambda row: (STAGES.get(row.stage, 0), -row.steps, row.word))
