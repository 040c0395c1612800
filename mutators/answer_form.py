"""The form of an answer, as prompts show it and error messages repeat it; the parser knows its example again."""

EXAMPLE_HYPOTHESIS = "one sentence that a measurement can refute"

HEADER_FORM = f'+++\nhypothesis = "{EXAMPLE_HYPOTHESIS}"\nclaim = "none"\n[prediction]\nall = 1.05\n+++'

BLOCK_FORM = "<<<<<<< SEARCH\nlines as they stand\n=======\nlines as they shall stand\n>>>>>>> REPLACE"


def without_examples(text: str) -> str:
    """The answer without word-for-word quotations of the form: they are the prompt's, not the answer's."""
    return text.replace(HEADER_FORM, "").replace(BLOCK_FORM, "")
