"""Gives directories, with all that is in them, to another user: hand_over.py UID[:GID] DIRECTORY…

Runs from standard input in a container that has these directories and, of all capabilities, CAP_CHOWN alone. What is in
there was written by programs, so no link is followed. Root may not read what is another's either, so a directory is its
own while it is walked through. The topmost is given away last: as long as it is not, the work is not done.
"""

import os
import resource
import sys
from collections.abc import Iterator


class Handover:
    def __init__(self, owner: str) -> None:
        uid, _, gid = owner.partition(":")
        self.uid = int(uid)
        self.gid = int(gid) if gid else -1
        self.given = 0

    def is_done(self, name: str, directory: int | None = None) -> bool:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        return found.st_uid == self.uid and self.gid in (-1, found.st_gid)

    def give(self, name: str, directory: int) -> None:
        if not self.is_done(name, directory):
            os.chown(name, self.uid, self.gid, dir_fd=directory, follow_symlinks=False)
            self.given += 1

    def give_all(self, top: str) -> None:
        if self.is_done(top):
            return
        walked: list[tuple[int, Iterator[os.DirEntry[str]]]] = [walk_into(top, None)]
        while walked:
            directory, entries = walked[-1]
            entry = next(entries, None)
            if entry is not None and entry.is_dir(follow_symlinks=False):
                walked.append(walk_into(entry.name, directory))
            elif entry is not None:
                self.give(entry.name, directory)
            else:
                os.fchown(directory, self.uid, self.gid)
                os.close(directory)
                self.given += 1
                walked.pop()


def walk_into(name: str, directory: int | None) -> tuple[int, Iterator[os.DirEntry[str]]]:
    os.chown(name, 0, -1, dir_fd=directory, follow_symlinks=False)
    opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    return opened, os.scandir(opened)


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two for each level
    handover = Handover(sys.argv[1])
    for top in sys.argv[2:]:
        handover.give_all(top)
    sys.stdout.write(f"{handover.given}\n")


if __name__ == "__main__":
    main()
