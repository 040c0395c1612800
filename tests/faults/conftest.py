"""Commands in this process over simulated runs, as the tests of the command line have them."""

from tests.evolve.cli.conftest import ask, finished, made

__all__ = ["ask", "finished", "made"]
