"""Every error goes over HTTP and comes back as what it was."""

import inspect

import pytest

from duly import errors
from duly.errors import DulyError
from duly.remote.http import error_of, problem_of

KINDS = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DulyError)
]
# What only a program meets, and nobody from afar.
NEAR = (
    errors.NotInAJob,
    errors.NotTheApp,
    errors.LeaseLost,
    errors.WriteBlocked,
    errors.EngineUnavailable,
)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NEAR])
def test_an_error_comes_back_as_what_it_was(kind: type[DulyError]) -> None:
    problem = problem_of(kind("the whole sentence"))
    back = error_of(problem.slug, problem.detail)
    assert (type(back), str(back)) == (kind, "the whole sentence")


def test_a_write_lock_of_another_program_is_an_outage_from_afar() -> None:
    problem = problem_of(errors.WriteBlocked("the whole sentence", since=1.0, seconds=2.0))
    back = error_of(problem.slug, problem.detail)
    assert (type(back), str(back)) == (errors.StoreUnavailable, "the whole sentence")


@pytest.mark.parametrize(
    ("error", "slug", "status"),
    [
        (errors.NotSignedIn("x"), "not-signed-in", 401),
        (errors.NotAllowed("x"), "not-allowed", 403),
        (errors.NotFound("x"), "not-found", 404),
        (errors.WrongState("x"), "wrong-state", 409),
        (errors.ScheduleExists("x"), "schedule-exists", 409),
        (errors.KeyTaken("x"), "key-taken", 409),
        (errors.ZoneMissing("x"), "zone-missing", 422),
        (errors.RuleError("x"), "rule-error", 422),
        (errors.PayloadError("x"), "payload-error", 422),
        (errors.InvalidValue("x"), "invalid-value", 422),
        (errors.Busy("x"), "busy", 503),
        (errors.OutcomeUnknown("x"), "outcome-unknown", 503),
        (errors.LeaseLost("x"), "duly-error", 400),
    ],
)
def test_each_kind_has_its_slug_and_its_status(error: DulyError, slug: str, status: int) -> None:
    problem = problem_of(error)
    assert (problem.slug, problem.status, problem.detail) == (slug, status, "x")
    assert problem.as_json()["type"] == f"/problems/{slug}"


def test_a_kind_of_a_later_version_is_an_error_all_the_same() -> None:
    back = error_of("too-rainy", "it rains")
    assert (type(back), str(back)) == (DulyError, "it rains")


def test_an_error_of_somebody_s_own_is_told_as_the_nearest_of_ours() -> None:
    class Gone(errors.NotFound):
        pass

    assert problem_of(Gone("x")).slug == "not-found"
