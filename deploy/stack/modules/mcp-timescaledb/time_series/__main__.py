import os

from time_series.database import Database
from time_series.tools import server

Place = ("HOST", "PORT", "DATABASE", "USER", "PASSWORD")


def main() -> None:
    host, port, name, user, password = (os.environ[f"TIMESCALEDB_{part}"] for part in Place)
    server(Database(host=host, port=int(port), name=name, user=user, password=password)).run("stdio")


if __name__ == "__main__":
    main()
