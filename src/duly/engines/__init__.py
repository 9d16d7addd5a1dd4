"""Engines for heavy work: ``@duly.task(engine=Dask("tcp://scheduler:8786"))``.

The libraries of an engine are imported when its first job runs.
"""

from duly.engines.container import Container
from duly.engines.dask import Dask
from duly.engines.kubernetes import Kubernetes
from duly.engines.ray import Ray

__all__ = ["Container", "Dask", "Kubernetes", "Ray"]
