"""A KDC of MIT Kerberos (Debian's krb5-kdc, krb5-admin-server and krb5-user) on loopback, in a directory of its own."""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from kpybroker.machines.sasl.jaas import KRB5_MODULE
from oracle import free_port
from oracle.process import HOST, die_with_parent
from support.waiting import NotInTimeError, eventually

REALM = "KPYBROKER.TEST"
PASSWORD = "a password of Kerberos"
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
MISSING = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
WHY_MISSING = f"Debian's krb5-kdc, krb5-admin-server and krb5-user are not installed: {', '.join(MISSING)} is missing"

START_TIMEOUT_S = 60.0
"""Also on a machine that does much else."""
ATTEMPTS = 3
"""A port that was free may be taken before the KDC has it."""


def with_keytab(principal: str, keytab: Path, **options: str) -> str:
    """The JAAS config of a principal whose keys are in a keytab."""
    further = "".join(f' {name}="{value}"' for name, value in options.items())
    return (
        f'{KRB5_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
        f'principal="{principal}@{REALM}"{further};'
    )


class Kdc:
    """A KDC with an empty database, used as a context manager. Names are not resolved: a service is at localhost."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.configuration = directory / "krb5.conf"
        self._write_configurations()

    @property
    def environment(self) -> dict[str, str]:
        """The variables for programs with MIT Kerberos."""
        return {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.directory / 'tickets'}",
            "KRB5_KTNAME": str(self.directory / "no.keytab"),
            "KRB5RCACHEDIR": str(self.directory),
        }

    def _write_configurations(self) -> None:
        self.configuration.write_text(
            f"""
[libdefaults]
    default_realm = {REALM}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {REALM} = {{
        kdc = {HOST}:{self.port}
    }}
"""
        )
        (self.directory / "kdc.conf").write_text(
            f"""
[kdcdefaults]
    kdc_listen = {HOST}:{self.port}
    kdc_tcp_listen = {HOST}:{self.port}
[realms]
    {REALM} = {{
        database_name = {self.directory}/principal
        key_stash_file = {self.directory}/stash
        max_life = 1h
        max_renewable_life = 1h
    }}
[logging]
    kdc = FILE:{self.directory}/kdc.log
"""
        )

    def __enter__(self) -> Self:
        self.run("kdb5_util", "create", "-s", "-W", "-P", "master")
        for _ in range(ATTEMPTS):
            if self._serves():
                return self
            self.port = free_port()
            self._write_configurations()
        raise AssertionError(f"the KDC does not start: {self._log()[-2000:]}")

    def _serves(self) -> bool:
        """Start the process; whether it serves. It ends if its port is taken."""
        reported = len(self._log())
        self._server = subprocess.Popen(
            ["krb5kdc", "-n"],
            env={**os.environ, **self.environment, "PATH": PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
        with suppress(NotInTimeError):
            eventually(lambda: self._server.poll() is not None or self._begins(reported), "the KDC", START_TIMEOUT_S)
        if self._begins(reported):
            return True
        self.stop()
        return False

    def _begins(self, position: int) -> bool:
        return "commencing operation" in self._log()[position:]

    def _log(self) -> str:
        log = self.directory / "kdc.log"
        return log.read_text() if log.exists() else ""

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process."""
        self._server.terminate()
        self._server.wait(10)

    def add(self, principal: str, *options: str) -> Path:
        """A keytab with the keys of a new principal."""
        keytab = self.directory / f"{principal.replace('/', '-')}.keytab"
        self._ask(f'addprinc {" ".join(options)} -pw "{PASSWORD}" {principal}')
        self._ask(f"ktadd -norandkey -k {keytab} {principal}")
        return keytab

    def change_key(self, principal: str) -> None:
        """Give a principal another key: keytabs that were written before are of no use."""
        self._ask(f"cpw -randkey {principal}")

    def tickets(self, principal: str, keytab: Path, *options: str) -> Path:
        """A cache with a ticket of a principal (``kinit``)."""
        cache = self.directory / f"{principal.replace('/', '-')}.tickets"
        self.run("kinit", "-k", "-t", str(keytab), "-c", str(cache), *options, principal)
        return cache

    def _ask(self, query: str) -> None:
        reported = self.run("kadmin.local", "-r", REALM, "-q", query)
        assert not any(word in reported for word in ("while", "unknown")), reported

    def run(self, program: str, *arguments: str) -> str:
        """Run one of Kerberos' programs."""
        done = subprocess.run(
            [program, *arguments],
            env={**os.environ, **self.environment, "PATH": PATH},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr
