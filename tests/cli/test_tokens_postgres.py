"""All that ``test_tokens`` says, on PostgreSQL."""

import pytest

from tests.cli.test_tokens import (
    store,
    test_a_bare_noun_lists_and_teaches_the_first_step,
    test_a_list_says_what_each_may_do_and_until_when,
    test_a_revoked_token_is_not_known_any_more_and_its_name_is_free,
    test_a_shell_can_keep_the_secret,
    test_looking_leaves_nothing_in_the_audit_log,
    test_status_does_not_speak_of_what_was_acknowledged,
    test_the_secret_alone_is_on_standard_output_and_only_once,
    test_what_cannot_be_a_token_is_refused,
    test_what_the_command_changes_is_in_the_audit_log_under_who_typed_it,
)

__all__ = [
    "store",
    "test_a_bare_noun_lists_and_teaches_the_first_step",
    "test_a_list_says_what_each_may_do_and_until_when",
    "test_a_revoked_token_is_not_known_any_more_and_its_name_is_free",
    "test_a_shell_can_keep_the_secret",
    "test_looking_leaves_nothing_in_the_audit_log",
    "test_status_does_not_speak_of_what_was_acknowledged",
    "test_the_secret_alone_is_on_standard_output_and_only_once",
    "test_what_cannot_be_a_token_is_refused",
    "test_what_the_command_changes_is_in_the_audit_log_under_who_typed_it",
]


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
