"""The packages' own errors as messages and exit codes of the command line."""

from evolve.cli.output import CommandError, Exit

CODES = {
    "ConfigError": Exit.CONFIG,
    "GoalError": Exit.CONFIG,
    "TaskError": Exit.CONFIG,
    "BankError": Exit.CONFIG,
    "BudgetRefused": Exit.BUDGET,
    "AnswerRefused": Exit.REFUTED,
    "MergeRefused": Exit.REFUTED,
    "ExportRefused": Exit.REFUTED,
    "EnvironmentUnfit": Exit.ENVIRONMENT,
    "KeyMissing": Exit.ENVIRONMENT,
    "RunNameInvalid": Exit.CONFIG,
    "RunUnwritable": Exit.ENVIRONMENT,
    "StoreFull": Exit.ENVIRONMENT,
    "IdUnknown": Exit.USAGE,
    "IdAmbiguous": Exit.USAGE,
    "RunError": Exit.RUN_FOLDER,
    "ReplayError": Exit.RUN_FOLDER,
    "NotComparableError": Exit.USAGE,
}
"""The exit code of each error that a user can act on, by the name of its class or a class above it."""


def translate(error: Exception) -> CommandError | None:
    """The command-line form of a known error, None for one that nobody foresaw.

    Matched by class name, so that translating an error loads no package that the command didn't load itself.
    """
    for kind in type(error).__mro__:
        code = CODES.get(kind.__name__)
        if code is not None:
            return CommandError(str(error), code)
    return None
