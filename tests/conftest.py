"""What all tests share: how hard hypothesis tries, and the API servers that tests run against."""

import os

from hypothesis import HealthCheck, settings

# Few examples by default, so that the whole suite stays a matter of seconds;
# HYPOTHESIS_PROFILE=thorough looks fifty times as hard. No deadline: machines differ.
_RELAXED = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
settings.register_profile("quick", max_examples=40, deadline=None, suppress_health_check=_RELAXED)
settings.register_profile("thorough", max_examples=2_000, deadline=None, suppress_health_check=_RELAXED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
