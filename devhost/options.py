"""What the command line says, and the port it asks for. Light, so that a mistake shows at once."""

import errno
import socket
from dataclasses import dataclass
from pathlib import Path

from devhost.errors import DevHostError

__all__ = ["Options", "bind"]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says; see `python -m devhost --help`."""

    app_dir: Path
    port: int | None = None
    host: str = "127.0.0.1"
    workers: int = 1
    flex: bool = False
    reload: bool = False
    # "disk" keeps Azurite's data in the app's folder, "memory" nowhere, "none" starts no Azurite.
    azurite: str = "disk"
    grace: float = 5.0
    auth: bool = False
    function_key: str | None = None
    master_key: str | None = None
    log_level: str = "info"
    quiet: bool = False
    ready_file: Path | None = None
    hint: Path | None = None


def bind(host: str, port: int) -> socket.socket:
    """A socket on the port, not listening yet: a busy port shows before anything is started."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # A second bind to the port succeeds until one of the two listens.
        listener.listen(128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise DevHostError(f"port {port} is in use: stop what uses it, or choose another with --port") from None
        raise DevHostError(f"can't listen on {host} port {port}: {error.strerror or error}") from None
    return listener
