"""A Hugging Face data set, on disk or from the hub; an extra, `pip install giveway[datasets]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from app.errors import BadSource, UsageError
from app.extras import need
from app.storage.sources.base import Asked, Batch, ReadOptions, Rows
from app.storage.sources.columns import needed
from app.storage.sources.filtering import Filter, names_in
from app.storage.sources.values import plain_rows
from app.storage.sources.words import refuse_words_of_files

SCHEME: Final = "hf:"
_BATCH_ROWS: Final = 1000
_HUB: Final = re.compile(r"(?P<name>[\w.-]+(?:/[\w.-]+)?)(?:/(?P<config>[\w.-]+))?", re.ASCII)


class Named(NamedTuple):
    """`name` is a path or a name on the hub; `split` None: the only one, or train."""

    name: str
    config: str | None
    split: str | None


class HfPlace:
    """A data set. A selection, as a rule: that it lacks a key says nothing."""

    path = None
    whole = False

    def __init__(self, named: Named) -> None:
        self._named = named
        self.shown_as = SCHEME + named.name + (f"@{named.split}" if named.split else "")

    def identity(self) -> tuple[str, ...]:
        """Path or name, configuration and split."""
        name, config, split = self._named
        local = Path(name)
        return ("hf", str(local.resolve()) if local.exists() else name, config or "", split or "")

    def check(self, options: ReadOptions) -> None:
        """What only files have, and a --where that is no expression."""
        refuse_words_of_files(options, self.shown_as, "data set")
        if options.where is not None:
            Filter(options.where)

    def fitted(self, options: ReadOptions) -> ReadOptions:
        """As they are."""
        self.check(options)
        return options

    @contextmanager
    def rows(self, options: ReadOptions) -> Iterator[Rows]:
        """Its rows; only the columns that are asked for are read."""
        found = self._loaded(_library())
        columns = tuple(found.column_names or ())
        if (read := needed(columns or None, options, names_in(options.where))) is not None:
            found = found.select_columns(list(read))
        yield Rows(columns or None, self._batches(found, options.text_field), "data set")

    def _batches(self, found: Any, text_field: str | None) -> Iterator[Batch]:
        number = 0
        try:
            for part in found.iter(batch_size=_BATCH_ROWS):
                rows = list(zip(*part.values(), strict=True))
                yield plain_rows(tuple(part), rows, text_field, number)
                number += len(rows)
        except (OSError, ValueError, RuntimeError, OverflowError) as error:
            raise self._bad(error, f"row {number + 1} or after: ") from error

    def _loaded(self, library: Any) -> Any:
        name, config, split = self._named
        try:
            if _was_saved(Path(name)):
                found = library.load_from_disk(name)
            elif split is None:
                found = library.load_dataset(name, config, streaming=True)
            else:
                found = library.load_dataset(name, config, split=split, streaming=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise self._bad(error) from error
        return self._one_split(found) if isinstance(found, dict) else found

    def _one_split(self, splits: dict[str, Any]) -> Any:
        wanted = self._named.split
        if wanted is None:
            wanted = next(iter(splits)) if len(splits) == 1 else "train"
        if wanted not in splits:
            raise BadSource(
                f"{self.shown_as}: no split {wanted!r}; name one of {', '.join(splits)}, as in "
                f"{SCHEME}{self._named.name}@{next(iter(splits))}"
            )
        return splits[wanted]

    def _bad(self, error: Exception, where: str = "") -> BadSource:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        hint = ""
        if not Path(self._named.name).exists():
            hint = "; it is no folder here, and from the hub it needs a network that reaches it"
        return BadSource(f"{self.shown_as}: {where}{said}{hint}")


class HfOrigin:
    """What begins with `hf:`."""

    name = "hf"

    def claims(self, asked: Asked) -> bool:
        """`hf:…`."""
        return asked.uri.startswith(SCHEME)

    def place(self, asked: Asked) -> HfPlace:
        """`hf:dataset`, `hf:owner/dataset/config@split`, or a path where one saved it."""
        for option, value in (("--query", asked.query), ("--table", asked.table)):
            if value is not None:
                raise UsageError(f"{option} is for a database URL; {asked.uri} is a data set")
        return HfPlace(named(asked.uri))


ORIGIN = HfOrigin()


def named(uri: str) -> Named:
    """What `hf:…` means. UsageError: nothing."""
    said, _, split = uri.removeprefix(SCHEME).partition("@")
    if said and (Path(said).exists() or said.startswith(("/", ".", "~"))):
        return Named(str(Path(said).expanduser()), None, split or None)
    match = _HUB.fullmatch(said)
    if match is None:
        raise UsageError(f"no data set {uri!r}; write it like hf:owner/dataset/config@split")
    return Named(match["name"], match["config"], split or None)


def _was_saved(path: Path) -> bool:
    return any((path / name).is_file() for name in ("state.json", "dataset_dict.json"))


def _library() -> Any:
    need("data sets need the package", "datasets", ["datasets"])
    import datasets

    datasets.disable_progress_bars()
    return datasets
