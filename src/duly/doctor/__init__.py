"""``duly doctor``: checks a store and its surroundings, and says how to fix each problem."""

from duly.doctor.examination import check_names, examine
from duly.doctor.finding import Finding, Level, Patient

__all__ = ["Finding", "Level", "Patient", "check_names", "examine"]
