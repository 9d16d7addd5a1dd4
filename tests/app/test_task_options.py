"""The signatures that editors show agree with the functions that take the options."""

import inspect

from duly.app.task_options import JobOptions, TaskOptions
from duly.registry.definition import define
from duly.registry.registry import Registry

OF_THE_CALL = {"self", "definition", "args", "kwargs"}


def test_the_decorator_has_every_option_of_a_definition() -> None:
    taken = {*inspect.signature(define).parameters} - {"function", "of_flow", "takes_context"}
    assert {*TaskOptions.__annotations__} == taken


def test_using_has_every_option_of_a_call() -> None:
    taken = {*inspect.signature(Registry.call).parameters} - OF_THE_CALL - {"submitter"}
    assert {*JobOptions.__annotations__} - {"connection", "idempotency_key"} == taken
