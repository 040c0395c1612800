"""Returns nothing but the one error that an exported package raises by its own decision."""


class CannotRun(RuntimeError):  # noqa: N818  (the name says what is the matter)
    """Returns an error for a kernel that can't run here, or not on these arguments.

    `what` happened (a sentence without a full stop), `where` it was seen (a file, an argument, a device), and `what_to_do`
    next. The message is the three, so that a traceback alone is enough to act on.
    """

    def __init__(self, what: str, where: str, what_to_do: str) -> None:
        super().__init__(f"{what} ({where}). {what_to_do}")
        self.what = what
        self.where = where
        self.what_to_do = what_to_do
