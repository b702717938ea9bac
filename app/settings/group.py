"""A group of settings, and the values that several groups hold. Unknown keys are errors."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
NotNegative = Annotated[float, Field(ge=0)]


class Group(BaseModel):
    """A table of giveway.toml. Frozen, and closed: a misspelt key does not pass."""

    model_config = ConfigDict(extra="forbid", frozen=True)
