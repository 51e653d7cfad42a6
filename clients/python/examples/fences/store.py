"""An object store that checks fences: it compares no numbers, but it refuses a write if the object has changed since it was read."""

import http.client
from typing import Optional, Tuple
from urllib.parse import quote


class StaleFence(Exception):
    """A later holder of the lock was here."""


def put_fenced(store: str, name: str, content: bytes, fence: int, attempts: int = 5) -> None:
    """Replaces an object, unless somebody with a larger fence has written it. The fence is stored with the object."""
    for _ in range(attempts):
        tag, seen = head(store, name)
        if seen > fence:
            raise StaleFence(f"{name} was written with fence {seen}, after {fence}")
        # The store writes only if the object is still the one whose fence was looked at.
        condition = {"If-None-Match": "*"} if tag is None else {"If-Match": tag}
        if put(store, name, content, {**condition, "x-amz-meta-fence": str(fence)}):
            return
        # Somebody was faster: look again whose fence is there now.
    raise OSError(f"{name} is changed by others all the time")


def head(store: str, name: str) -> Tuple[Optional[str], int]:
    """Returns the tag of an object and the fence it was written with; no tag and 0 if there is no object."""
    status, headers = request(store, "HEAD", name, b"", {})
    if status == 404:
        return None, 0
    if status != 200:
        raise OSError(f"the store answers with {status}")
    return headers["ETag"], int(headers.get("x-amz-meta-fence", "0"))


def put(store: str, name: str, content: bytes, headers: "dict[str, str]") -> bool:
    """Writes an object. Returns whether the condition in the headers was met."""
    status, _ = request(store, "PUT", name, content, headers)
    # 409: another conditional write was under way.
    if status not in (200, 201, 204, 409, 412):
        raise OSError(f"the store answers with {status}")
    return status in (200, 201, 204)


def request(
    store: str, method: str, name: str, content: bytes, headers: "dict[str, str]"
) -> "Tuple[int, http.client.HTTPMessage]":
    connection = http.client.HTTPConnection(store, timeout=10)
    try:
        connection.request(method, f"/{quote(name)}", content or None, headers)
        response = connection.getresponse()
        response.read()
        return response.status, response.headers
    finally:
        connection.close()
