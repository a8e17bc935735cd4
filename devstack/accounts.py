"""The unprivileged account a server drops to when root starts it, and where it may go."""

import os
import pwd
import stat
from pathlib import Path

from devstack import errors
from devstack.supervise import Account


def unprivileged() -> Account:
    """Return the account that runs the server for root: PostgreSQL refuses to be root."""
    for user in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise errors.Problem(
        "NO_DATABASE_USER",
        "PostgreSQL refuses to run as root, and neither user postgres nor nobody exists.",
        "Run the command as an ordinary user, or add a user named postgres.",
    )


def may_pass(folder: Path, account: Account) -> bool:
    """Return whether the account may go through a folder that may not exist yet."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return True
    if status.st_uid == account.user:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.group:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def own_folder(place: Path, account: Account | None) -> None:
    """Make `place` a folder of the account alone. Raises Problem FOREIGN_FOLDER."""
    place.parent.mkdir(parents=True, exist_ok=True)
    owner = account.user if account else os.geteuid()
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in {owner, os.geteuid()}:
            raise errors.Problem(
                "FOREIGN_FOLDER",
                f"The folder {place} should hold the database's files and is somebody else's.",
                "Find out whose it is, then move it away.",
            ) from None
    if account:
        os.chown(place, account.user, account.group, follow_symlinks=False)
