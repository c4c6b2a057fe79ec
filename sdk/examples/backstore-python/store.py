# SPDX-License-Identifier: Apache-2.0
"""The store: one regular file."""

import errno
import fcntl
import os
import stat
import time

# The codes of sdk/backstore that this plugin uses.
IO, UNAVAILABLE, BUSY, NO_SPACE, READ_ONLY, RANGE, NOT_SUPPORTED, INVALID = 1, 2, 3, 4, 5, 6, 7, 9

SIZES = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
         "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
KEYS = ("path", "size", "block_size", "read_only")
MAX_LENGTH = 64 << 20  # of one transfer: a message has at most 72 MiB


class Failure(Exception):
    """Why a call failed: a code of sdk/backstore, and text for the operator."""

    def __init__(self, code, text=""):
        super().__init__(text)
        self.code = code


def parse_size(text):
    """Returns the bytes of a size such as 64MiB."""
    unit = text.lstrip("0123456789")
    digits = text[:len(text) - len(unit)]
    factor = SIZES.get(unit.strip(" "))
    n = int(digits) * factor if digits and len(digits) < 20 and factor else 0
    if not 0 < n < 1 << 63:
        raise Failure(INVALID, f"size: {text} is not a size such as 64MiB")
    return n


class Store:
    """A file. Its methods may be called from any thread."""

    def __init__(self, config, deadline, active):
        """Opens it, and waits until deadline, of time.monotonic, for the end of an earlier process's I/O, as long as active()."""
        for key in config:
            if key not in KEYS:
                raise Failure(INVALID, f"{key}: no such setting; there are {', '.join(KEYS)}")
        path = config.get("path", "")
        if not path.startswith("/"):
            raise Failure(INVALID, "path: name a file by its absolute path")
        size = parse_size(config["size"]) if "size" in config else None
        block_size, read_only = config.get("block_size", "512"), config.get("read_only", "false")
        if block_size not in ("512", "4096"):
            raise Failure(INVALID, f"block_size: {block_size} is neither 512 nor 4096")
        if read_only not in ("true", "false"):
            raise Failure(INVALID, f"read_only: {read_only} is neither true nor false")
        self.block_size, self.read_only = int(block_size), read_only == "true"
        try:
            self.fd = self._open(path, size)
        except OSError as e:
            raise Failure(UNAVAILABLE, f"{path}: {e.strerror}") from e
        try:
            self._fence(deadline, active)
            self.size = self._measure(path, size)
        except BaseException:
            os.close(self.fd)
            raise

    def _open(self, path, size):
        mode = os.O_RDONLY if self.read_only else os.O_RDWR
        if size and not self.read_only:
            mode |= os.O_CREAT
        return os.open(path, mode | os.O_CLOEXEC, 0o600)

    def _fence(self, deadline, active):
        """Takes the lock of the open file that does the I/O: the kernel drops an earlier process's when its last I/O has landed."""
        while True:
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                pass
            if time.monotonic() >= deadline or not active():
                raise Failure(UNAVAILABLE, "another process has the file open, or its last I/O is not over yet")
            time.sleep(0.005)

    def _measure(self, path, size):
        """Returns the size in bytes, whole blocks. A new file gets it here, behind the fence."""
        st = os.fstat(self.fd)
        if not stat.S_ISREG(st.st_mode):
            raise Failure(INVALID, f"{path}: is not a regular file")
        have = st.st_size
        if have == 0 and size and not self.read_only:
            try:
                os.ftruncate(self.fd, size)
                os.fsync(self.fd)
            except OSError as e:
                raise Failure(NO_SPACE, f"{path}: setting its size: {e.strerror}") from e
            have = size
        if size and have != size:
            raise Failure(INVALID, f"{path}: has {have} bytes but size says {size}; make them agree")
        have -= have % self.block_size
        if have == 0:
            raise Failure(INVALID, f"{path}: has less than one block; set size or use a larger file")
        return have

    def _check(self, offset, length):
        if length > MAX_LENGTH:
            raise Failure(INVALID, f"a transfer of {length} bytes; {MAX_LENGTH} can be")
        if offset + length > self.size:
            raise Failure(RANGE, f"{length} bytes at {offset} are not in the store's {self.size}")
        if offset % self.block_size or length % self.block_size:
            raise Failure(INVALID, f"{length} bytes at {offset} are not whole blocks of {self.block_size}")

    def read(self, offset, length):
        self._check(offset, length)
        parts, at = [], offset
        with reported():
            while at < offset + length:
                part = os.pread(self.fd, offset + length - at, at)
                if not part:
                    raise Failure(IO, "the file is shorter than it was")
                parts.append(part)
                at += len(part)
        return b"".join(parts)

    def write(self, offset, data, fua):
        self._check(offset, len(data))
        if self.read_only:
            raise Failure(READ_ONLY)
        rest = memoryview(data)
        with reported():
            while rest:
                n = os.pwritev(self.fd, [rest], offset, os.RWF_DSYNC if fua else 0)
                rest, offset = rest[n:], offset + n

    def flush(self):
        if not self.read_only:
            with reported():
                os.fdatasync(self.fd)

    def close(self):
        os.close(self.fd)


class reported:
    """Makes Failures of the errors of system calls."""

    def __enter__(self):
        return self

    def __exit__(self, kind, e, trace):
        if isinstance(e, OSError):
            code = NO_SPACE if e.errno in (errno.ENOSPC, errno.EDQUOT) else IO
            raise Failure(code, e.strerror) from e
        return False
