"""The facts by which notes of a run are known again."""

CONFIG_FACT = "config"
"""Holds a changed configuration."""

WHY_STOPPED = "why_stopped"
"""Holds the reason for which a driver stopped before its time; the note's text says it at length."""

ENDING = "ending"
"""Holds the reason for which a run is about to end while prompts are open: nobody need answer them."""
