"""Systems that jobs are handed to: Celery, RQ, Dramatiq, brokers, streams and webhooks.

Each is a class that can send a message and wait until it is confirmed. The modules for Celery, RQ
and Dramatiq also hold what reports the outcome from the worker over there.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

from duly.builtin.send import HandOffTarget
from duly.errors import InvalidValue
from duly.settings.tables import TargetSettings
from duly.targets.webhook import WebhookTarget


def open_targets(
    settings: Sequence[TargetSettings], *, networks: Sequence[str] = (), secrets: Sequence[str] = ()
) -> Mapping[str, HandOffTarget]:
    """Return the targets by name; each connects when it sends its first message.

    ``networks`` and ``secrets`` are what the operator allows to webhooks.
    """
    return {one.name: _target(one, networks, secrets) for one in settings}


def _target(
    settings: TargetSettings, networks: Sequence[str], secrets: Sequence[str]
) -> HandOffTarget:
    if settings.kind == "webhook":
        return WebhookTarget(settings, networks=networks, secrets=secrets)
    module, name = _KINDS[settings.kind]
    try:
        made: HandOffTarget = getattr(import_module(f"duly.targets.{module}"), name)(settings)
    except ImportError as error:
        raise InvalidValue(
            f"targets.{settings.name}: {settings.kind} needs the package {error.name}, which is "
            f'not installed: pip install "duly[{settings.kind}]"'
        ) from error
    return made


# Imported when they are used: each needs a client that is not installed with duly.
_KINDS: Final = {
    "celery": ("celery", "CeleryTarget"),
    "rq": ("rq", "RqTarget"),
    "dramatiq": ("dramatiq", "DramatiqTarget"),
    "redis": ("redis_stream", "RedisStreamTarget"),
    "rabbitmq": ("rabbitmq", "RabbitMqTarget"),
    "nats": ("nats", "NatsTarget"),
    "kafka": ("kafka", "KafkaTarget"),
}
