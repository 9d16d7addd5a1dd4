"""A webhook as target: the work is the JSON body of a POST.

Any 2xx is the confirm. If the outcome is reported, the receiver does so later by a POST to
``/api/v1/jobs/{job}/outcome`` of ``duly web``, with the job and the id of the body.
"""

import json
from collections.abc import Sequence

from duly.builtin.http import HttpTask
from duly.builtin.http_exchange import HttpFailed
from duly.builtin.network_guard import NetworkGuard
from duly.builtin.send import OutgoingMessage, TargetDown
from duly.clock import Timeout
from duly.settings.tables import TargetSettings
from duly.targets.configured import PATIENCE_SECONDS, ConfiguredTarget, target_down


class WebhookTarget(ConfiguredTarget):
    def __init__(
        self, settings: TargetSettings, *, networks: Sequence[str], secrets: Sequence[str]
    ) -> None:
        super().__init__(settings)
        self._client = HttpTask(NetworkGuard(networks), secrets=frozenset(secrets))

    async def send(self, message: OutgoingMessage) -> None:
        body = {
            "id": str(message.id),
            "job": message.id.job,
            "attempt": message.id.attempt,
            "task": message.task,
            "args": message.args,
            "kwargs": message.kwargs,
        }
        try:
            with target_down(()):
                async with Timeout(PATIENCE_SECONDS):
                    await self._client.http(
                        self.url,
                        "POST",
                        headers={"Idempotency-Key": str(message.id), **message.options},
                        body=json.dumps(body),
                        sign=self.settings.sign or None,
                    )
        except HttpFailed as error:
            # A receiver that answers with an error is there: that is a failed attempt.
            if isinstance(error.__cause__, OSError | HttpFailed):  # no answer, or half of one
                raise TargetDown(str(error)) from error
            raise
