"""What of the configuration shapes the population."""

from dataclasses import dataclass

from evolve.config import RunConfig
from population.islands import IslandArchive


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Islands, members kept on each, and attempts without an improvement after which an island starts again (0: never)."""

    islands: int
    capacity: int
    reset_after: int = 0

    def archive(self, scenarios: int) -> IslandArchive:
        """An empty archive for candidates that are right in so many scenarios."""
        return IslandArchive(scenarios=scenarios, islands=self.islands, capacity=self.capacity, reset_after=self.reset_after)


def rules_of(config: RunConfig) -> Rules:
    """The rules that a configuration names."""
    return Rules(
        islands=config.population.islands,
        capacity=config.population.capacity,
        reset_after=config.population.reset_after,
    )
