"""The signature of a task: its arguments and result as JSON, checked at enqueue and at run time.

Between the two lie a database and often a deployment. Arguments are decoded again before they are
stored: a wrong type is an error of the caller, with a traceback, and not a failed job at 02:00.
When the job runs, its arguments must fit the function as it is then; if they do not, the job is
blocked until a fitting worker or a person resolves it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2s
from typing import Any

import msgspec

from duly.errors import InvalidValue, PayloadError
from duly.model.flow import LONGEST_FILLED
from duly.model.payload import EMPTY, LONGEST_ARGS, LONGEST_RESULT, Json
from duly.registry import codecs
from duly.registry.annotations import (
    RETURN,
    described,
    may_hold_anything,
    refuse_unkept,
    resolved,
    result_of_step,
)
from duly.registry.codecs import ENCODER
from duly.registry.parameters import (
    ARGUMENTS,
    Parameters,
    changed,
    check_plain,
    check_storable,
    in_python,
    misfit,
    misplaced,
    unwritable,
)

_NOTHING = Json("null")


@dataclass(frozen=True, slots=True)
class _Types:
    """The types of a function's parameters, and the decoders made from them."""

    hints: Mapping[str, Any]
    arguments: msgspec.json.Decoder[Any]
    loose: frozenset[str]  # parameters that take any type
    result: msgspec.json.Decoder[Any]


class Signature:
    """The signature of one task. Types that are not defined yet are resolved at first use.

    ``keeps_result`` is False for a task whose result is not stored: it may be of any type. A flow
    (``of_flow``) returns a step, and its result is that of the step.
    """

    def __init__(
        self, parameters: Parameters, *, keeps_result: bool = True, of_flow: bool = False
    ) -> None:
        self.parameters = parameters
        self.task: str = parameters.task
        self._keeps_result = keeps_result
        self._of_flow = of_flow
        try:
            self._types_if_known: _Types | None = self._read_types()
        except NameError:
            self._types_if_known = None

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        *,
        takes_context: bool,
        task: str | None = None,
        keeps_result: bool = True,
    ) -> "Signature":
        spoken = task or str(getattr(function, "__name__", "the task"))
        return cls(
            Parameters.of(function, takes_context=takes_context, task=spoken),
            keeps_result=keeps_result,
        )

    @property
    def hints(self) -> Mapping[str, Any]:
        """The types of the parameters and, as ``return``, of the result."""
        return self._types.hints

    @property
    def hints_if_known(self) -> Mapping[str, Any] | None:
        """The types, or None if an annotation names a type that is not defined yet."""
        if self._types_if_known is None:
            try:
                self._types_if_known = self._read_types()
            except NameError:
                return None
        return self._types_if_known.hints

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the parameters: if it changes, arguments that did not fit may fit now."""
        hints = self._types.hints
        lines = [
            f"{'' if name in self.parameters.required else '?'}{name}:{described(hint)}"
            for name, hint in hints.items()
            if name != RETURN
        ]
        return blake2s("\n".join(lines).encode(), digest_size=6).hexdigest()

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Json:
        """Return the arguments as JSON; raise ``PayloadError`` that names the wrong one."""
        return self.encode_bound(self.parameters.bound(args, kwargs))

    def encode_bound(self, given: Mapping[str, object]) -> Json:
        """Return arguments by name, as ``Parameters.bound`` returns them, as JSON."""
        if not given:
            return EMPTY
        types = self._types_if_known or self._types
        if types.loose:
            self._check_loose(given, types.loose)
        data = self._written(given, given, what=ARGUMENTS, longest=LONGEST_ARGS)
        try:
            types.arguments.decode(data)
            if self.parameters.extra:
                self._read_extra(data)
        except msgspec.ValidationError as error:
            raise misfit(self.task, error) from None
        return Json(data.decode())

    def encode_known(self, given: Mapping[str, object], *, later: Collection[str]) -> Json:
        """Return the arguments as JSON; those in ``later`` are incomplete and not checked."""
        given = self.parameters.bound((), given)
        data = self._written(given, given, what=ARGUMENTS, longest=LONGEST_ARGS)
        for name, value in given.items():
            if name not in later:
                self._check_one(name, value)
        return Json(data.decode())

    def encode_items(self, name: str, items: list[object]) -> Json:
        """Return a list as JSON; each item is checked as the argument of that name."""
        data = self._written(items, {name: items}, what=name, longest=LONGEST_FILLED)
        self._check_one(name, items, kind=list[self._hint_of(name)])  # type: ignore[misc]
        return Json(data.decode())

    def check_defaults(self) -> None:
        """Refuse defaults that could not be passed as arguments."""
        for name, value in self.parameters.defaults.items():
            self._written(value, {name: value}, what=name, longest=LONGEST_ARGS)
            self._check_one(name, value)

    def decode(self, text: str) -> dict[str, object]:
        """Return the keyword arguments for the function; raise ``SignatureChanged`` on a misfit."""
        if text == EMPTY and not self.parameters.required:
            return {}
        types = self._types_if_known or self._types
        try:
            found = types.arguments.decode(text)
            kwargs = {
                name: value
                for name, value in msgspec.structs.asdict(found).items()
                if value is not msgspec.UNSET
            }
            return kwargs | self._read_extra(text) if self.parameters.extra else kwargs
        except (msgspec.DecodeError, RecursionError) as error:
            raise changed(self.parameters, text, error) from None

    def values(self, text: str) -> dict[str, object]:
        """Return the decoded arguments with defaults, for names and titles."""
        return {**self.parameters.defaults, **self.decode(text)}

    def encode_result(self, value: object) -> Json:
        if value is None:
            return _NOTHING
        try:
            data = ENCODER.encode(value)
        except Exception as error:  # noqa: BLE001 - codecs and properties of others run here
            raise PayloadError(f"{self.task}: its result cannot be stored: {error}") from None
        try:
            check_storable(data, value, what="result", longest=LONGEST_RESULT)
        except PayloadError as error:
            raise PayloadError(f"{self.task}: its {error}") from None
        return Json(data.decode())

    def decode_result(self, text: str) -> object:
        """Return the result in the type of the function's return annotation."""
        types = self._types_if_known or self._types
        try:
            return types.result.decode(text)
        except msgspec.DecodeError as error:
            raise PayloadError(
                f"{self.task}: its result does not match the return annotation: "
                f"{in_python(str(error))}"
            ) from None

    @property
    def _types(self) -> _Types:
        if self._types_if_known is None:
            try:
                self._types_if_known = self._read_types()
            except NameError as error:
                raise InvalidValue(
                    f"{self.task}: an annotation cannot be resolved: {error}; define the type at "
                    "the top of a module, and import it outside of `if TYPE_CHECKING`"
                ) from None
        return self._types_if_known

    def _read_types(self) -> _Types:
        parameters = self.parameters
        hints = resolved(parameters.function, parameters.annotations)
        if not self._keeps_result:
            hints[RETURN] = Any
        elif self._of_flow:
            hints[RETURN] = result_of_step(hints[RETURN], flow=self.task)
        refuse_unkept(hints, task=self.task)
        fields = [
            (name, hints[name])
            if name in parameters.required
            else (name, hints[name], msgspec.UNSET)
            for name in parameters.names
        ]
        shape = msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=parameters.extra is None
        )
        return _Types(
            hints=hints,
            arguments=msgspec.json.Decoder(shape, dec_hook=codecs.read),
            loose=frozenset(
                name for name in hints if name != RETURN and may_hold_anything(hints[name])
            ),
            result=msgspec.json.Decoder(hints[RETURN], dec_hook=codecs.read),
        )

    def _check_loose(self, given: Mapping[str, object], loose: frozenset[str]) -> None:
        for name, value in given.items():
            if name in loose or (self.parameters.extra in loose and not self._is_known(name)):
                check_plain(self.task, name, value)

    def _written(
        self, value: object, given: Mapping[str, object], *, what: str, longest: int
    ) -> bytes:
        try:
            data = ENCODER.encode(value)
        except Exception as error:  # noqa: BLE001 - codecs and properties of others run here
            raise unwritable(self.task, given, error) from None
        try:
            check_storable(data, value, what=what, longest=longest)
        except PayloadError as error:
            raise misplaced(self.task, str(error)) from None
        return data

    def _check_one(self, name: str, value: object, kind: Any = None) -> None:  # noqa: ANN401 - a type
        self._check_loose({name: value}, self._types.loose)
        wanted = self._hint_of(name) if kind is None else kind
        try:
            msgspec.json.decode(ENCODER.encode(value), type=wanted, dec_hook=codecs.read)
        except msgspec.ValidationError as error:
            raise misfit(self.task, error, argument=name) from None

    def _hint_of(self, name: str) -> Any:  # noqa: ANN401 - a type, as annotations have
        return self._types.hints[name if self._is_known(name) else str(self.parameters.extra)]

    def _read_extra(self, text: str | bytes) -> dict[str, object]:
        """Decode what **kwargs takes, one by one, so that an error can name the argument."""
        kind = self._types.hints[str(self.parameters.extra)]
        found: dict[str, object] = msgspec.json.decode(text)
        extra = {name: value for name, value in found.items() if not self._is_known(name)}
        for name, value in extra.items():
            try:
                extra[name] = msgspec.convert(value, kind, dec_hook=codecs.read)
            except msgspec.ValidationError as error:
                raise msgspec.ValidationError(f"{error} - at `$.{name}`") from None
        return extra

    def _is_known(self, name: str) -> bool:
        return name in self.parameters.known
