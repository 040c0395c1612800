"""The views of a run: their names, titles, scripts, and where links lead on a server and in a written report."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One page: its ``scripts`` beside those of every page, and the ``data`` that they draw."""

    name: str
    label: str
    title: str
    scripts: tuple[str, ...] = ()
    data: tuple[str, ...] = ()


FIGURES = ("svg", "figure", "plot")
QUESTIONS = View(name="questions", label="Questions", title="Questions")
VIEWS = (
    View(name="overview", label="Overview", title="Overview", scripts=(*FIGURES, "panel", "progress"), data=("columns",)),
    View(name="progress", label="Progress", title="Progress", scripts=(*FIGURES, "panel", "progress"), data=("columns",)),
    View(
        name="lineage", label="Lineage", title="Lineage", scripts=(*FIGURES, "tree", "panel", "lineage"),
        data=("columns", "candidates"),
    ),
    QUESTIONS,
    View(name="scenarios", label="Scenarios", title="Scenarios", scripts=(*FIGURES, "heat", "scenarios"), data=("scenarios",)),
    View(name="archive", label="Archive", title="Archive", scripts=(*FIGURES, "heat", "archive"), data=("archive",)),
    View(name="failures", label="Failures", title="Failures"),
    View(name="replay", label="Replay", title="The way to the best", scripts=("code", "replay")),
    View(name="compare", label="Compare", title="Compare kernels", scripts=("code",)),
    View(name="arms", label="Arms", title="Who answered"),
)  # fmt: skip
CANDIDATE = View(name="candidate", label="Kernel", title="Kernel", scripts=("kernel", "code"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where links lead, relative to the run's first page. ``written``: the kernels with a page in a report; None: live."""

    written: Collection[str] | None = None

    def __getitem__(self, name: str) -> str:
        """The page of a view."""
        if self.written is None:
            return "" if name == "overview" else name
        return "index.html" if name == "overview" else f"{name}.html"

    def __getattr__(self, name: str) -> str:
        """The same as an attribute, for templates."""
        return self[name]

    def candidate(self, full_id: str) -> str:
        """The page of a kernel; a report shows one without a page of its own by a script."""
        key = full_id[:16]
        if self.written is None:
            return f"candidate/{key}"
        return f"candidate/{key}.html" if key in self.written else f"candidate.html#{key}"

    def csv(self, name: str) -> str:
        """The table behind a figure."""
        return f"data/{name}.csv"
