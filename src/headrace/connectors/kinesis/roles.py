"""Who one is to a service of Amazon's: by a key, by what the machine has, or by a role to assume.

For a role the key, or what the machine has, is shown to Amazon's security token service, which
lends credentials for an hour. They are asked for when something is first signed, and again before
their time is over, and stand nowhere but in the client. All who sign wait for that: so a token
service has its time for all of an answer, and one that did not answer is left alone for a moment,
or those who wait would ask it one after the other.

Each role has a session of the client library. What these read from disk to know the service is read
once a process, or each would take ten megabytes and a tenth of a second.
"""

from __future__ import annotations

import math
import re
import time
from functools import cache, partial
from typing import Any, Final

from headrace.connectors.amazon_clients import AmazonService
from headrace.connectors.kinesis.client import code_of

_ROLE: Final = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,512}")
#: how the role's account is told who has it
_SESSION: Final = "headrace"
_LOADER: Final = "data_loader"
#: seconds to connect to the token service, and for all of its answer
_CONNECT_S, _LEND_S = 5.0, 10.0
#: for which it is left alone when it did not answer
_REST_S: Final = 5.0


def is_role(arn: str) -> bool:
    """Whether a role can be called so."""
    return _ROLE.fullmatch(arn) is not None


def session_of(user: str | None, password: str | None) -> Any:
    """What clients of one user are made of; without one, of whom the machine has.

    Raises:
        ImportError: the client library is not there.
    """
    made = _fresh()
    made.register_component(_LOADER, _read_once())
    if user is not None:
        made.set_credentials(user, password)
    return made


def in_role(lender: Any, arn: str, region: str, config: Any) -> Any:
    """The same of a role; contacts nobody.

    Args:
        lender: a session of who may assume it.
        arn: what the role is called.
        region: where it is asked for.
        config: how long the token service is waited for.
    """
    from botocore.credentials import (  # noqa: PLC0415 - only who speaks to Kinesis needs it
        AssumeRoleCredentialFetcher,
        DeferredRefreshableCredentials,
    )

    fetcher = AssumeRoleCredentialFetcher(
        client_creator=_TokenService(
            partial(lender.create_client, region_name=region, config=config)
        ),
        source_credentials=_Lender(lender),
        role_arn=arn,
        extra_args={"RoleSessionName": _SESSION},
    )
    made = session_of(None, None)
    made._credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    return made


class _TokenService:
    """Makes what the library asks for a role, each time with what it is shown then."""

    def __init__(self, client_of: Any) -> None:
        self._client_of = client_of
        #: until when nobody asks, and why
        self._rests_s, self._why = -math.inf, Exception()

    def __call__(self, name: str, **shown: Any) -> _Asked:
        """As the library makes a client."""
        make = partial(self._client_of, name, **shown)
        return _Asked(self, AmazonService("the token service", make, (_CONNECT_S, _LEND_S)))

    def lent(self, service: AmazonService, asked: dict[str, Any]) -> Any:
        """Its answer; one that did not come is not waited for again soon."""
        if time.monotonic() < self._rests_s:
            raise self._why.with_traceback(None)
        try:
            return service.asked("assume_role", asked)
        except Exception as error:
            if not code_of(error):
                self._rests_s, self._why = time.monotonic() + _REST_S, error
            raise
        finally:
            service.close()


class _Asked:
    """A client of the token service, for one question."""

    def __init__(self, of: _TokenService, service: AmazonService) -> None:
        self._of, self._service = of, service

    def assume_role(self, **asked: Any) -> Any:
        """As the library asks for a role."""
        return self._of.lent(self._service, asked)


class _Lender:
    """Whoever asks for a role; who that is is looked for when it is asked for."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def get_frozen_credentials(self) -> Any:
        """As the library asks for them."""
        from botocore.exceptions import NoCredentialsError  # noqa: PLC0415

        found = self._session.get_credentials()
        if found is None:
            raise NoCredentialsError
        return found.get_frozen_credentials()


def _fresh() -> Any:
    from botocore.session import Session  # noqa: PLC0415

    return Session()


@cache
def _read_once() -> Any:
    return _fresh().get_component(_LOADER)
