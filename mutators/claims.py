"""Whether a text claims that the kernel is at its limit, or finished: an answer's header says so, or its prose does.

Cues in single sentences, in English. How often they are right is measured on labelled sentences (tests/mutators/claims.toml)
and written down in docs/questions.md.
"""

import re
from collections.abc import Iterator

from mutators.question import Claim

MAX_CHARS = 20000
"""So much of an answer's prose is read, half from each end; claims stand at the beginning or at the end."""

_LIMIT = r"(?:limits?|ceiling|roofline|peak|maximum|optimum|wall|upper bound)"
_DENIED = re.compile(
    r"\b(?:no|nothing|none|little|hardly|\w+n't|cannot|can not|not|never|zero|impossible|unlikely|without|negligible|tiny|"
    r"prevents?|diminishing|out of|exhausted|noise)\b",
    re.IGNORECASE,
)
_PROGRESS = re.compile(
    r"\b(?:faster|improv\w+|gain(?:s|ed)?|speed-?ups?|speed|headroom|room for|optimi[sz]ations?|optimi[sz]e|levers?|"
    r"slack|accelerations?|"
    r"performance|squeezed?|any better|directions?|opportunit\w+|avenues?|move the numbers|(?:change|edit) would help|"
    r"beat(?:ing|en)?)\b",
    re.IGNORECASE,
)
_FOR_GOOD = re.compile(
    r"\b(?:left|remain\w*|further|any ?more|no longer|possible|achievable|any (?:faster|better)|made faster|available|"
    r"unlikely|"
    r"out of (?:the question|reach)|to (?:gain|win|exploit|be gained)|beyond|explored|exhausted|diminishing|"
    r"on (?:this|one) \w+|"
    r"from here|than this|zero|no more|additional|another|allow|make it|help|noise)\b",
    re.IGNORECASE,
)
_ARRIVED = re.compile(
    rf"\b(?:at|hit|hits|reach(?:ed|es)|arrived at|sits at|as|near|close to)\b (?:roughly |about |essentially )?(?:the|"
    rf"its|a|an|our|that)\b(?! moment)"
    rf"[^,;:\d]{{0,25}}\b{_LIMIT}\b(?! (?:rate|number|of a row|for))|\b(?:the|its|theoretical|"
    rf"physical) (?:\w+ )?{_LIMIT}\b (?:has|have) been (?:reached|hit)\b",
    re.IGNORECASE,
)
_CEILING = re.compile(
    r"\bend of the (?:road|line)\b|\bno way (?:past|around|beyond)\b|\bas (?:fast|good) as (?:it|this|the)\b|"
    r"\b(?:essentially|effectively|practically|already|near|is)[ -]optimal\b(?! (?:number|tile|value|order|for a))|"
    r"\b(?:the )?(?:best|fastest) (?:\w+ )?(?:that )?(?:can be (?:done|had|achieved|reached)|possible|achievable|"
    r"this \w+ permits)\b|"
    r"\b(?:gap|rest|distance)\b[^,;:]{0,20}\b(?:can't|cannot) be \w+|\bsee no (?:\w+ )?(?:lever|way|room)\b|"
    r"\bany better than this\b",
    re.IGNORECASE,
)
_WHOLE = (
    r"(?:kernel|code|source|work|task|job|assignment|optimi[sz]ation(?: process)?|implementation|solution|search|"
    r"everything|version)"
)
_DONE = re.compile(
    r"^(?:done|finished|completed?)\b\W|\b(?:i'm|i am|we're|we are) (?:now )?(?:done|finished)\b|"
    rf"\b(?:the|this|my|our) (?:\w+ )?{_WHOLE}(?: here)? (?:is|are) (?:now |all )?(?:done|completed?|finished|final|"
    rf"ready|solved)\b"
    r"(?! (?:in|at|by|when|with|once|for the next))|"
    rf"\b(?:consider|call|declare|regard)\b[^,;:]{{0,20}}\b{_WHOLE}\b[^,;:]{{0,8}}\b(?:done|complete|finished|final)\b|"
    r"\b(?:no|nothing)\b[^,;:]{0,12}\b(?:changes?|edits?|work|action|modifications?)\b[^,;:]{0,12}\b(?:needed|"
    r"required|necessary|proposed)\b|"
    r"\b(?:propose|recommend|suggest) no\b|"
    r"\bnothing (?:else |more |further )?(?:remains |is left |left )?to (?:be done|do|change|fix)\b(?! after)|"
    r"\b(?:goal|target|objective|criterion|requirement|requested speed-?up)s?\b (?:of [\d.]+x? )?(?:has been|"
    r"have been|is|are|was)"
    r" (?:now |all )?(?:met|reached|achieved|satisfied|fulfilled)\b|\b(?:satisfies|meets) (?:every|all|each)\b|"
    r"\b(?:leave|leaving|keep|keeping|submit)\b[^,;:]{0,15}\b(?:kernel|source|code|parent|everything)\b[^,;:]{0,8}"
    r"\b(?:unchanged|as is|as it is)\b|\bparent,? unchanged\b|\bfinal version\b(?! of)|\breleased as it is\b|"
    r"\b(?:can|should|may|let's|'d|would|recommend\w*) stop(?:ping)?\b(?: here| now| at|\.|$)|\bend the search\b|"
    r"\b(?:concludes|wraps up|completes|completed) (?:the|this|my|our) (?:optimi[sz]ation|implementation|work|task|job)\b|"
    r"\beverything \w+ has been (?:delivered|done)\b",
    re.IGNORECASE,
)
_DOUBTED = re.compile(
    r"\b(?:don't|do not|doesn't) (?:think|believe) (?:that )?(?:we|it|this|the)\b|"
    r"\b(?:if|until|once|when|whether|unless|as soon as|before|after)\b|\b(?:isn't|not|never|far from)\b[^,;:]{0,20}"
    r"\b(?:at|near|done|finished|complete|optimal|reached|met|yet)\b|\bfar (?:from|below)\b|\b(?:claimed|were)\b",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^<{5,}.*?^>{5,}.*?$", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=[-*+] )")


def claim_in(text: str) -> Claim:
    """What the prose of a text claims about its kernel as a whole: a ceiling, that it is done, or nothing.

    Code fences and SEARCH/REPLACE blocks are left out. A ceiling outranks done; a sentence with a condition or a denial claims
    nothing.
    """
    found = {claim_of(sentence) for sentence in sentences(text)}
    return next((claim for claim in (Claim.CEILING, Claim.DONE) if claim in found), Claim.NONE)


def claim_of(sentence: str) -> Claim:
    """What one sentence claims."""
    if _DOUBTED.search(sentence):
        return Claim.NONE
    if _DONE.search(sentence):
        return Claim.DONE
    no_more = all(cue.search(sentence) for cue in (_DENIED, _PROGRESS, _FOR_GOOD))
    return Claim.CEILING if no_more or _ARRIVED.search(sentence) or _CEILING.search(sentence) else Claim.NONE


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text's prose, without code."""
    prose = _BLOCK.sub("\n\n", _FENCE.sub("\n\n", text))
    if len(prose) > MAX_CHARS:
        prose = f"{prose[: MAX_CHARS // 2]}\n\n{prose[-MAX_CHARS // 2 :]}"
    for sentence in _SENTENCE.split(prose):
        if words := " ".join(sentence.split()):
            yield words
