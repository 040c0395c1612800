"""The questions that readers put to a run's tables, as SQL. ``results.reader`` gives the answers as values."""

from evaluator.outcome import NOT_REFUTING, Stage

REFUTED = (
    f"SELECT candidate_id FROM finals WHERE verdict NOT IN ({', '.join(repr(verdict.value) for verdict in sorted(NOT_REFUTING))})"
    " UNION SELECT candidate_id FROM elsewhere WHERE cheats"
)
WHOLE = "o.verdict = 'OK' AND o.scenarios = (SELECT scenarios FROM run)"  # right in all scenarios, so it may be the best
BEST = f"""
SELECT CASE WHEN best_id NOT IN ({REFUTED}) THEN best_id WHEN best_id IS NOT NULL THEN (
    SELECT o.candidate_id FROM outcomes o WHERE {WHOLE} AND o.candidate_id NOT IN ({REFUTED}) ORDER BY o.low DESC LIMIT 1
) END FROM run
"""  # the search's own word; between a final that refutes it and the next fold, the next by fitness

OPEN = "SELECT * FROM posed WHERE number NOT IN (SELECT number FROM steps)"

INFO = f"""
SELECT name, config_hash, version, started_at, ({BEST}) AS best_id, spent_s, stopped_by,
    (SELECT MAX(at) FROM events WHERE seq = (SELECT MAX(seq) FROM events)) AS last_at,
    (SELECT MAX(seq) FROM events) AS events,
    (SELECT COUNT(step_number) FROM candidates) AS candidates,
    (SELECT COUNT(*) FROM elsewhere) AS elsewhere,
    (SELECT COUNT(*) FROM outcomes) AS evaluated,
    (SELECT COUNT(*) FROM ({OPEN})) AS open_steps, every.*
FROM run, (
    SELECT COUNT(*) AS steps, COUNT(status) AS folded, COALESCE(SUM(accepted AND origin <> 'seed'), 0) AS accepted,
        COALESCE(SUM(origin = 'sweep'), 0) AS swept, COALESCE(SUM(cost_usd), 0.0) AS cost_usd, COALESCE(SUM(tokens), 0) AS tokens
    FROM steps
) AS every
"""  # one walk over the steps, which are long rows

CANDIDATE_COLUMNS = """
    c.id, c.normal_id, c.language, c.step_number, c.origin, c.island, c.parent_id, c.depth,
    o.verdict, o.stage, o.message, o.opponent, o.scenarios, o.low, o.geomean, o.high, o.worst_scenario, o.worst_ratio,
    s.status, s.accepted
"""
CANDIDATE_TABLES = """
    candidates c LEFT JOIN steps s ON s.number = c.step_number LEFT JOIN outcomes o ON o.step_number = c.step_number
"""
CANDIDATES = f"SELECT {CANDIDATE_COLUMNS} FROM {CANDIDATE_TABLES}"
LEADING = f"""
SELECT {CANDIDATE_COLUMNS} FROM outcomes o
    CROSS JOIN candidates c ON c.id = o.candidate_id AND c.step_number = o.step_number
    LEFT JOIN steps s ON s.number = c.step_number
WHERE {WHOLE} ORDER BY o.low DESC, c.step_number LIMIT ?
"""  # the first of CANDIDATES by fitness, found along the index of outcomes.low (CROSS JOIN keeps that order)
OWN = "c.step_number IS NOT NULL"  # proposed by a step of this run
ORDERS = {"number": "c.step_number", "fitness": f"({WHOLE}) DESC, o.low DESC, c.step_number"}

VERIFIED = f"""
WITH own AS (
    SELECT candidate_id, low, seq, verdict FROM finals AS last
    WHERE seq = (SELECT MAX(seq) FROM finals WHERE candidate_id = last.candidate_id)
), merged AS (
    SELECT candidate_id, low, seq, verdict, device, arch, comparable FROM elsewhere AS last
    WHERE effort = 'final' AND candidate_id NOT IN ({REFUTED}) AND seq = (
        SELECT MAX(seq) FROM elsewhere WHERE effort = 'final' AND candidate_id = last.candidate_id
        AND comparable = last.comparable AND device = last.device AND arch = last.arch
    )
), near AS (
    SELECT candidate_id, low, seq, verdict, 1 AS near FROM own
    WHERE candidate_id NOT IN (SELECT candidate_id FROM elsewhere WHERE cheats)
    UNION ALL SELECT candidate_id, low, seq, verdict, 1 FROM merged
    WHERE comparable AND candidate_id NOT IN (SELECT candidate_id FROM own WHERE verdict = 'OK')
), far AS (
    SELECT candidate_id, low, seq, verdict, 0 AS near FROM merged WHERE NOT comparable AND (device, arch) = (
        SELECT device, arch FROM merged WHERE NOT comparable AND verdict = 'OK' AND low IS NOT NULL ORDER BY seq DESC LIMIT 1
    )
)
SELECT candidate_id FROM (SELECT * FROM near UNION ALL SELECT * FROM far)
WHERE verdict = 'OK' AND low IS NOT NULL ORDER BY near DESC, low DESC, seq LIMIT 1
"""  # figures of different devices are never held against each other: those of another count where the run's own verified none

DEVICES = """
SELECT device, arch, COUNT(*) AS outcomes, SUM(effort = 'final') AS finals, SUM(effort = 'final' AND verdict = 'OK') AS verified
FROM elsewhere GROUP BY device, arch ORDER BY outcomes DESC, device, arch
"""

ANCESTORS = f"""
WITH RECURSIVE line (id, place) AS (
    SELECT parent_id, 1 FROM candidates WHERE id = ?
    UNION ALL SELECT candidates.parent_id, place + 1 FROM line JOIN candidates ON candidates.id = line.id
    WHERE place < (SELECT COUNT(*) FROM candidates)
)
SELECT {CANDIDATE_COLUMNS} FROM line JOIN {CANDIDATE_TABLES} WHERE c.id = line.id ORDER BY line.place
"""

STEPS = """
SELECT s.number, s.id, s.asked_at, s.origin, s.island, s.parent_id, s.candidate_id, s.duplicate_of,
    s.question_id, s.entry_id, s.layer, s.moment, s.question, s.answerer, s.tokens, s.cost_usd, s.answer_s,
    s.hypothesis, s.claim, s.rejection, o.verdict, o.low, o.geomean, o.high, s.status, s.accepted, s.gain
FROM steps s LEFT JOIN outcomes o ON o.step_number = s.number
"""

STAGES = {name: place for place, name in enumerate(("answer", *(stage.value for stage in Stage), "waiting"))}
FUNNEL = """
SELECT stage, word, COUNT(*) AS steps FROM (
    SELECT
        CASE WHEN s.rejection IS NOT NULL THEN 'answer' WHEN o.stage IS NOT NULL THEN o.stage
            WHEN s.duplicate_of IS NOT NULL THEN 'recognise' ELSE 'waiting' END AS stage,
        CASE WHEN s.rejection IS NOT NULL THEN s.rejection WHEN o.verdict IS NOT NULL THEN o.verdict
            WHEN s.duplicate_of IS NOT NULL THEN 'DUPLICATE' ELSE 'for evaluation' END AS word
    FROM steps s LEFT JOIN outcomes o ON o.step_number = s.number
) GROUP BY stage, word
"""


def questions(key: str) -> str:
    """The query for the record of questions, grouped by the column ``key`` of the steps."""
    return f"""
    SELECT {key} AS key, s.layer AS layer, COUNT(*) AS asked,
        COALESCE(SUM(s.rejection IS NULL AND s.duplicate_of IS NULL AND s.candidate_id IS NOT NULL), 0) AS answered,
        COALESCE(SUM(o.verdict IN ('OK', 'SLOWER')), 0) AS "right",
        COALESCE(SUM(s.accepted), 0) AS accepted, COALESCE(SUM(s.gain), 0.0) AS gain,
        SUM(s.tokens) AS tokens, SUM(s.cost_usd) AS cost_usd, SUM(s.answer_s) AS answer_s,
        COALESCE(SUM(o.wall_s), 0.0) AS evaluation_s
    FROM steps s LEFT JOIN outcomes o ON o.step_number = s.number
    WHERE s.question_id IS NOT NULL GROUP BY {key} ORDER BY asked DESC, key
    """
