"""What the machine says about a file, as BadSource with the file's name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import BadSource


@contextmanager
def named(name: str) -> Iterator[None]:
    """Turn what opening and reading raise into BadSource; `name` is what messages call the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise BadSource(f"no file {name}") from error
    except IsADirectoryError as error:
        raise BadSource(f"{name} is a folder; name one file") from error
    except PermissionError as error:
        raise BadSource(f"{name}: no permission to read it") from error
    except EOFError as error:
        raise BadSource(f"{name}: the gzip file is cut off; copy it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BadSource(f"{name}: the gzip file is damaged: {error}") from error
    except OSError as error:
        raise BadSource(f"{name}: cannot be read: {error.strerror or error}") from error
