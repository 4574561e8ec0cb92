"""The types of values that OpenFeature's methods ask for."""

from __future__ import annotations

from collections.abc import Mapping

from openfeature.exception import TypeMismatchError
from openfeature.flag_evaluation import FlagType

_TYPES: Mapping[FlagType, tuple[type, ...]] = {
    FlagType.BOOLEAN: (bool,),
    FlagType.STRING: (str,),
    FlagType.INTEGER: (int,),
    FlagType.FLOAT: (float,),
    FlagType.OBJECT: (dict, list),
}


def require_type(flag_key: str, value: object, flag_type: FlagType) -> None:
    """Raise TypeMismatchError unless the value has exactly this type. In Python, True is also an integer."""
    if type(value) not in _TYPES[flag_type]:
        kind = flag_type.value.lower()
        raise TypeMismatchError(f"The value of {flag_key} is of type {type(value).__name__}, and not {kind}.")
