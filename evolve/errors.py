"""What keeps a search from going on though nothing is wrong with its configuration or folder. Nothing stored is lost."""

# ruff: noqa: N818  (the names say what is the matter, which reads better where they are caught)


class EnvironmentUnfit(Exception):
    """This machine lacks what an evaluation needs; the text says what."""


class MergeRefused(Exception):
    """What was measured elsewhere doesn't fit the run that it is brought to; the text says what differs and what to do."""


class AnswererFailed(Exception):
    """The answerer raised instead of answering; the text says at which step and with what."""
