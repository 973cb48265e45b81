"""The one YAML file: every setting, typed, with unit, default and one line of meaning.

A typo in a configuration must not silently mean the default, so unknown keys are refused, and an
error names the file, the line and the key. Secrets do not belong in the file: any text may say
``${NAME}`` and is filled from the environment, and what is secret can be read from files
(``database_url_file``, ``smtp_url_file``, ``doors.secret_file``, in ``connections`` any key with
``_file`` after it, and in ``registry`` the name of a secret with ``.file``), as containers mount
them.

Words are those that users know: ``kafka`` holds client properties, ``spark`` holds ``spark.*``
settings, ``registry`` has Confluent's keys, durations are ``10s`` or ``250ms`` and sizes ``64m``,
as in Spark.

Commands are typed in many folders and must find the same store. So every relative path, wherever it
is said, starts at the folder of the YAML file. Paths among the ``kafka`` and ``spark`` properties,
and those of certificates, are passed on as they are: they count wherever tasks run.
"""

from headrace.settings.connections import ConnectionSettings
from headrace.settings.console import ConsoleSettings
from headrace.settings.doors import CertificateSettings, DoorsSettings
from headrace.settings.driver import DriverSettings, UseCaseSettings
from headrace.settings.gateway import GatewaySettings, RateSettings
from headrace.settings.reading import read_settings
from headrace.settings.whole import Settings

__all__ = [
    "CertificateSettings",
    "ConnectionSettings",
    "ConsoleSettings",
    "DoorsSettings",
    "DriverSettings",
    "GatewaySettings",
    "RateSettings",
    "Settings",
    "UseCaseSettings",
    "read_settings",
]
