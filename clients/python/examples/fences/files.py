"""A file that checks fences, for programs of one machine, or of one file system whose `flock` works between machines."""

import fcntl
import os
from pathlib import Path


class StaleFence(Exception):
    """A later holder of the lock was here."""


def write_fenced(path: Path, content: bytes, fence: int) -> None:
    """Replaces a file, unless somebody with a larger fence has written it. The largest fence is in a file beside it."""
    new = path.with_name(f"{path.name}.{fence}.new")
    with open(new, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    with open(path.with_name(f"{path.name}.fence"), "a+") as seen:
        # Nobody else compares or writes meanwhile. The kernel frees it if this program dies.
        fcntl.flock(seen, fcntl.LOCK_EX)
        seen.seek(0)
        largest = int(seen.read() or "0")
        if largest > fence:
            new.unlink()
            raise StaleFence(f"{path} was written with fence {largest}, after {fence}")
        # The fence first: if this program dies in between, the file is old, and no older holder can write it any more.
        seen.truncate(0)
        seen.write(str(fence))
        seen.flush()
        os.fsync(seen.fileno())
        new.replace(path)
