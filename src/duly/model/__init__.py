"""The domain model: frozen values for jobs, schedules, fires, flows, limits and workers."""
