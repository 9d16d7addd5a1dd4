"""The doctor: looks at a store and at what is around it, and says of each trouble what helps."""

from duly.app.doctor.examination import check_names, examine
from duly.app.doctor.finding import Finding, Level
from duly.app.doctor.patient import Patient

__all__ = ["Finding", "Level", "Patient", "check_names", "examine"]
