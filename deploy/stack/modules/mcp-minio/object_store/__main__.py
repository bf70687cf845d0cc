import os

from minio import Minio

from object_store.store import Store
from object_store.tools import server

REGION = "us-east-1"  # stores of one's own have no regions, but the signature names one


def main() -> None:
    client = Minio(
        os.environ["MINIO_ENDPOINT"],
        access_key=os.environ["MINIO_ACCESS_KEY"],
        secret_key=os.environ["MINIO_SECRET_KEY"],
        secure=os.environ["MINIO_SECURE"] == "true",
        region=os.environ.get("MINIO_REGION") or REGION,
    )
    server(Store(client)).run("stdio")


if __name__ == "__main__":
    main()
