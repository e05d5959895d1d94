"""Messages in the words of the command line: options that the Python text names, as a shell spells them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

__all__ = ["in_shell"]

_NUMBER: Final = r"[-+]?(?:nan|inf|\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_DECLARED: Final = re.compile(r"\b(bounds|levels|moments)=\{(['\"])(.+?)\2: (\([^()]*\)|\[[^\[\]]*\]|\.\.\.)\}")
_INDEXED: Final = re.compile(r"\b(bounds|levels|moments)\[(['\"])(.+?)\2\](?: = \(([^(),]*), ([^(),]*)\))?")
_FAMILY: Final = re.compile(r"\bfamily=([A-Z]\w*)\(([^()]*)\)")
_SEVERAL: Final = re.compile(r"\b([a-z_]+)=\(((?:['\"]\w+['\"](?:, )?)+),?\)")
_GIVEN: Final = re.compile(
    rf"[A-Z]\w*\([^()]*\)|(?<![\w'\"])([a-z_]+)=(?:(['\"])([^'\"]*)\2|({_NUMBER})\b|True\b)?(?![\w{{\[(<='\"])"
)
_PLAIN: Final = re.compile(r"(?<![\w'\"=-])(max_per_id|mu_max|y_max|batch_size|score_weights)\b(?!['\"=])")
_WORDS: Final = re.compile(r"\b(alpha|exponentiate)\b(?!=)")
_ELSEWHERE: Final = {"alpha": "--step-exponent"}
_FORMS: Final = {"bounds": "NAME=LOW:HIGH", "levels": "NAME=A,B", "moments": "NAME=MEAN:SD"}


def in_shell(message: str, options: Collection[str]) -> str:
    """A message with the options that it names as a shell spells them.

    Parameters
    ----------
    message : str
        One line. If it names an option of the shell already, nothing is changed.
    options : collection of str
        Options of the verb; other names stay as they are.

    Examples
    --------
    >>> in_shell("missing='nois' is not known", ["--missing"])
    '--missing nois is not known'
    >>> in_shell("give bounds={'age': (low, high)} or levels={'age': [...]}", ["--bounds", "--levels"])
    'give --bounds age=LOW:HIGH or --levels age=A,B'
    """
    if "--" in message:
        return message

    def option(name: str) -> str | None:
        spelt = _ELSEWHERE.get(name, f"--{name.replace('_', '-')}")
        return spelt if spelt in options else None

    def declared(found: re.Match[str]) -> str:
        spelt = option(found[1])
        return found[0] if spelt is None else f"{spelt} {_quoted(f'{found[3]}={_value(found[1], found[4])}')}"

    def indexed(found: re.Match[str]) -> str:
        spelt, pair = option(found[1]), "" if found[4] is None else f"={found[4]}:{found[5]}"
        return found[0] if spelt is None else f"{spelt} {_quoted(found[3] + pair)}"

    def family(found: re.Match[str]) -> str:
        if option("family") is None:
            return found[0]
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", found[1]).lower()
        more = [f"--{k.replace('_', '-')} {v}" for k, v in re.findall(r"(\w+)=([^,\s]+)", found[2])]
        more += [f"--tau {found[2]}"] if name in {"quantile", "expectile"} and not more and found[2] else []
        return " ".join([f"--family {name}", *more])

    def several(found: re.Match[str]) -> str:
        spelt = option(found[1])
        return found[0] if spelt is None else f"{spelt} {' '.join(re.findall(r'[a-z]+', found[2]))}"

    def given(found: re.Match[str]) -> str:
        spelt = None if found[1] is None else option(found[1])  # None: a call such as Huber(c=1.345)
        if spelt is None:
            return found[0]
        value = found[4] or found[3]
        return spelt if value is None else f"{spelt} {_quoted(value)}"

    def plain(found: re.Match[str]) -> str:
        return option(found[1]) or found[0]

    if "--no-privacy" in options:
        message = re.sub(r"mu=None|\bNone(?= for a fit without privacy)", "--no-privacy", message)
    for pattern, write in (
        *((_FAMILY, family), (_DECLARED, declared), (_INDEXED, indexed), (_SEVERAL, several), (_GIVEN, given)),
        (_PLAIN, plain),
    ):
        message = pattern.sub(write, message)
    left = dict.fromkeys(_WORDS.findall(message))
    here = [spelt for spelt in map(option, left) if spelt is not None and spelt not in message]
    forms = [n for n in dict.fromkeys(re.findall(r"\b(bounds|levels|moments)[=\[]", message)) if option(n) is not None]
    here = [*(f"--{n} {_FORMS[n]}" for n in forms), *here]
    return f"{message} (here: {', '.join(here)})" if here else message


def _value(kind: str, written: str) -> str:
    """A declaration as Python has it, as an option has it."""
    if kind == "levels":
        named = re.findall(r"'([^']*)'|\"([^\"]*)\"|([^\s,\[\]'\"]+)", written)
        return "A,B" if written in {"...", "[...]"} else ",".join(a or b or c for a, b, c in named)
    parts = [p.strip() for p in written.strip("()").split(",")]
    return ":".join(p.upper() if p.isalpha() else p for p in parts) if len(parts) == 2 else "LOW:HIGH"


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[^\s\"'$`\\!;&|<>*?]*", text) and text else f'"{text}"'
