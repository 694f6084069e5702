"""Imported by Python itself at its start where this folder is on its path: leaves what macOS's Python has as well.

Names that only Linux has are taken out of the standard library: those that Python's documentation limits to Linux, or
to Unix without macOS. `/proc` and `/sys` are not there, and the platform says that it is another one, if not macOS
itself, for which the standard library would look for modules of its own.
"""

import builtins
import io
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

ONLY_THERE = {
    "select": ("epoll", "EPOLL"),
    "os": (
        *("posix_fadvise", "posix_fallocate", "POSIX_FADV_", "fdatasync", "pipe2", "RWF_", "O_DIRECT", "O_TMPFILE"),
        *("sched_", "SCHED_", "eventfd", "EFD_", "memfd_create", "MFD_", "pidfd_", "copy_file_range", "splice"),
        *("getrandom", "GRND_", "getxattr", "setxattr", "listxattr", "removexattr", "timerfd", "unshare", "setns"),
    ),
    "socket": (
        *("SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_BINDTODEVICE", "SO_DOMAIN", "SO_INCOMING_CPU", "SO_MARK", "SO_PASSCRED"),
        *("SO_PEERCRED", "SO_PRIORITY", "SO_PROTOCOL", "MSG_MORE", "MSG_CMSG_CLOEXEC", "MSG_ERRQUEUE", "AF_NETLINK"),
        *("TCP_CONGESTION", "TCP_CORK", "TCP_DEFER_ACCEPT", "TCP_INFO", "TCP_KEEPIDLE", "TCP_LINGER2"),
        *("TCP_QUICKACK", "TCP_SYNCNT", "TCP_USER_TIMEOUT", "TCP_WINDOW_CLAMP"),
    ),
    "fcntl": (
        "F_OFD_",
        "F_ADD_SEALS",
        "F_GET_SEALS",
        "F_SEAL_",
        "F_SETPIPE_SZ",
        "F_GETPIPE_SZ",
        "F_SETSIG",
        "F_NOTIFY",
    ),
    "mmap": ("MAP_POPULATE", "MADV_HUGEPAGE", "MADV_NOHUGEPAGE", "MADV_DONTFORK", "MADV_REMOVE", "MADV_POPULATE"),
    "resource": ("prlimit", "RLIMIT_MSGQUEUE", "RLIMIT_NICE", "RLIMIT_RTPRIO", "RLIMIT_SIGPENDING"),
    "signal": ("pidfd_send_signal", "sigwaitinfo", "sigtimedwait", "SIGPWR", "SIGSTKFLT", "SIGRT"),
}
"""Beginnings of names by module, in this order: who imports a later one has seen the earlier ones as they are now."""
NOT_THERE = ("/proc/", "/sys/")


def _take_away() -> None:
    for module_name, beginnings in ONLY_THERE.items():
        module = import_module(module_name)
        for name in [name for name in vars(module) if name.startswith(beginnings)]:
            delattr(module, name)


def _without_proc(open_file: Callable[..., Any]) -> Callable[..., Any]:
    def opened(file: Any, *arguments: Any, **named: Any) -> Any:
        if not isinstance(file, int) and os.fsdecode(file).startswith(NOT_THERE):
            raise FileNotFoundError(2, "No such file or directory", file)
        return open_file(file, *arguments, **named)

    return opened


_take_away()
builtins.open = io.open = _without_proc(io.open)
os.open = _without_proc(os.open)
sys.platform = "freebsd14"
