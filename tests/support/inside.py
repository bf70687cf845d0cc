"""Goes before the Python probes of a test: it runs inside a sandbox, never in the test itself."""

import ctypes
import errno
import fcntl  # noqa: F401  (for the probes, as struct is)
import json
import os
import socket
import struct  # noqa: F401

SO_BINDTODEVICE = 25

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# name: (number on x86_64, number on aarch64)
NUMBERS = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "close": (3, 57),
    "execveat": (322, 281),
    "finit_module": (313, 273),
    "fsopen": (430, 430),
    "getpid": (39, 172),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "seccomp": (317, 277),
    "semget": (64, 190),
    "setgid": (106, 144),
    "setgroups": (116, 159),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "setuid": (105, 146),
    "shmget": (29, 194),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}


def tell(value):
    print(json.dumps(value))


def attempt(action, *arguments, **options):
    """ "ok", or the name of the error."""
    try:
        action(*arguments, **options)
    except TimeoutError as error:
        return "timeout" if error.errno is None else errno.errorcode[error.errno]
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "ok"


def system_call(name, *arguments):
    """ "ok", or the name of the error."""
    number = NUMBERS[name][os.uname().machine != "x86_64"]
    passed = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    result = libc.syscall(ctypes.c_long(number), *passed)
    return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def write_file(path, content="x"):
    with open(path, "w") as file:
        file.write(content)


def read_file(path):
    with open(path) as file:
        return file.read()


def process_status():
    lines = (line.partition(":") for line in read_file("/proc/self/status").splitlines())
    return {name: value.strip() for name, _, value in lines}


def mounts():
    """Mount point: (file system, options)."""
    fields = (line.split() for line in read_file("/proc/mounts").splitlines())
    return {entry[1]: (entry[2], entry[3].split(",")) for entry in fields}


def cgroup_file(unified, legacy):
    for path in (f"/sys/fs/cgroup/{unified}", f"/sys/fs/cgroup/{legacy}"):
        if os.path.exists(path):
            return read_file(path).strip()
    raise AssertionError(f"neither {unified} nor {legacy} is there")


def to_gateway(timeout_seconds=20):
    """A connection through the only door that there is."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(timeout_seconds)
    client.connect("\0gateway")
    return client


def gateway_client():
    """The same for requests."""
    import http.client

    class Client(http.client.HTTPConnection):
        def connect(self):
            self.sock = to_gateway()

    return Client("gateway")


def connect(address, port, family=socket.AF_INET):
    with socket.socket(family) as client:
        client.settimeout(2)
        client.connect((address, port))
