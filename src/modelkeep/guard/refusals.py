"""Every way in which the gateway says no, once: REST and gRPC translate the same small tree.

The caller reads the message. It says what was wrong and what is allowed, and nothing about the model's insides.
"""

from __future__ import annotations

import math
from http import HTTPStatus

from modelkeep.core.errors import GuardError


class Refusal(GuardError):
    """The root: an HTTP status, the name of the gRPC status, a sentence, and after how many seconds to ask again.

    >>> refusal = TooMany("Slow down.", retry_after=0.2)
    >>> refusal.status, refusal.code, refusal.headers
    (429, 'RESOURCE_EXHAUSTED', {'Retry-After': '1'})
    """

    status: int = HTTPStatus.INTERNAL_SERVER_ERROR.value
    code: str = "INTERNAL"  # a member of grpc.StatusCode

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers of the answer; also right as gRPC metadata, in lower case."""
        # RFC 9110 has whole seconds only; rounded up, or a caller that obeys would come too early.
        return {} if self.retry_after is None else {"Retry-After": str(max(1, math.ceil(self.retry_after)))}


class Malformed(Refusal):
    """The request is not one that the protocol or the model's inputs allow."""

    status = HTTPStatus.BAD_REQUEST.value
    code = "INVALID_ARGUMENT"


class Unauthorised(Refusal):
    """No key, or none that is known."""

    status = HTTPStatus.UNAUTHORIZED.value
    code = "UNAUTHENTICATED"

    @property
    def headers(self) -> dict[str, str]:
        """RFC 9110 wants a 401 to say how to authenticate."""
        return {"WWW-Authenticate": "Bearer"}


class NotOperator(Unauthorised):
    """Only the operator may see this."""

    @property
    def headers(self) -> dict[str, str]:
        """A browser asks for a password, which is the key."""
        return {"WWW-Authenticate": 'Basic realm="the operator\'s key as password"'}


class NotFound(Refusal):
    """There is no such model or version here."""

    status = HTTPStatus.NOT_FOUND.value
    code = "NOT_FOUND"


class TooLarge(Refusal):
    """The request has more bytes or rows than the gateway takes at once."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE.value
    code = "OUT_OF_RANGE"


class UnknownEncoding(Refusal):
    """The body is compressed in a way that is not read here."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE.value
    code = "UNIMPLEMENTED"

    @property
    def headers(self) -> dict[str, str]:
        """RFC 9110 has a 415 name what would be read."""
        return {"Accept-Encoding": "gzip, identity"}


class TooMany(Refusal):
    """The principal's rate or budget is used up; without `retry_after`, for good."""

    status = HTTPStatus.TOO_MANY_REQUESTS.value
    code = "RESOURCE_EXHAUSTED"


class Unavailable(Refusal):
    """The store or the model cannot be reached now, so there is no answer that could be kept."""

    status = HTTPStatus.SERVICE_UNAVAILABLE.value
    code = "UNAVAILABLE"

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message, retry_after=retry_after)


class BadUpstream(Refusal):
    """The model did not give a prediction; nothing of what it gave is in the sentence."""

    status = HTTPStatus.BAD_GATEWAY.value
    code = "UNAVAILABLE"  # what gRPC makes of a 502
