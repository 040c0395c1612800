"""What all tests share: property tests have no deadline, since two busy cores make any of them slow now and then."""

from hypothesis import settings

settings.register_profile("project", deadline=None)
settings.load_profile("project")
