"""Messages as a shell has them: options that the Python text names, spelt as the command line does."""

from __future__ import annotations

import re
from typing import Final

from privreg.options.table import Option, of_verb

_NUMBER: Final = r"[-+]?(?:nan|inf|\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_VALUE: Final = rf"\{{[^{{}}]*\}}|\([^()]*\)|[A-Z]\w*\([^()]*\)|'[^']*'|\"[^\"]*\"|{_NUMBER}\b|True\b|None\b"
_SAID: Final = re.compile(
    rf"(?<!=)\b\w+\([^()]*\)|(?<![\w'\"=-])(?P<name>[a-z_]+)(?:=(?P<value>{_VALUE})?(?![\w{{\[(<='\"])"
    r"|\[(['\"])(?P<column>.+?)\3\](?: = (?P<pair>\([^()]*\)))?|(?![\w='\"]))"
)
_ENTRY: Final = re.compile(r"(['\"])(.+?)\1: (\([^()]*\)|\[[^\[\]]*\]|\.\.\.)")
_WORDS: Final = ("alpha", "exponentiate")  # Options that messages name as words of their own


def in_shell(message: str, verb: str) -> str:
    """A message with the options that it names as a verb of the command line spells those that it takes.

    If it names an option of the shell already, nothing is changed.

    Examples
    --------
    >>> in_shell("missing='nois' is not known", "fit")
    '--missing nois is not known'
    >>> in_shell("give bounds={'age': (low, high)} or levels={'age': [...]}", "fit")
    'give --bounds age=LOW:HIGH or --levels age=A,B'
    """
    if "--" in message:
        return message
    options = {o.name: o for o in of_verb(verb) if not o.kind.startswith("word")}

    def spelt(found: re.Match[str]) -> str:
        option = options.get(found["name"] or "")
        if option is None:
            return found[0]
        if found["column"] is not None:
            pair = f"={_declared(option, found['pair'])}" if found["pair"] else ""
            return f"{option.spelt} {quoted(found['column'] + pair)}"
        if "=" not in found[0]:
            return option.spelt if "_" in option.name else found[0]
        value = found["value"]
        if value == "None":
            return f"{option.spelt} none" if option.kind == "names" else found[0]
        return option.spelt if value is None or value == "True" else f"{option.spelt} {_given(option, value)}"

    if "no_privacy" in options:
        message = re.sub(r"mu=None|\bNone(?= for a fit without privacy)", "--no-privacy", message)
    message = _SAID.sub(spelt, message)
    here = [options[name].spelt for name in _WORDS if name in options and re.search(rf"\b{name}\b(?!=)", message)]
    forms = [o for o in options.values() if o.kind in {"pairs", "levels"} and re.search(rf"\b{o.name}[=\[]", message)]
    here = [*(f"{o.spelt} {o.metavar}" for o in forms), *(h for h in here if h not in message)]
    return f"{message} (here: {', '.join(here)})" if here else message


def _given(option: Option, value: str) -> str:
    """The value of an option as Python has it, as the shell has it."""
    if value[0] == "{":
        return " ".join(quoted(f"{name}={_declared(option, said)}") for _, name, said in _ENTRY.findall(value))
    if value[0] == "(":
        return " ".join(re.findall(r"\w+", value))
    family = re.fullmatch(r"([A-Z]\w*)\((.*)\)", value)
    if family is None:
        return quoted(value.strip("'\""))
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", family[1]).lower()
    own = [f"--{k.replace('_', '-')} {v}" for k, v in re.findall(r"(\w+)=([^,\s]+)", family[2])]
    level = [f"--tau {family[2]}"] if name in {"quantile", "expectile"} and family[2] and not own else []
    return " ".join([name, *own, *level])


def _declared(option: Option, said: str) -> str:
    """A declaration as Python has it, as an option has it."""
    if option.kind == "levels":
        named = re.findall(r"'([^']*)'|\"([^\"]*)\"|([^\s,\[\]'\"]+)", said)
        return "A,B" if said in {"...", "[...]"} else ",".join(a or b or c for a, b, c in named)
    parts = [p.strip().strip("'\"") for p in said.strip("()").split(",")]
    return ":".join(p.upper() if p.isalpha() else p for p in parts) if len(parts) == 2 else "LOW:HIGH"


def quoted(text: str) -> str:
    """A word of a shell, in double quotes where it needs any, since they serve on Windows too."""
    return text if re.fullmatch(r"[^\s\"'$`\\!;&|<>*?()~]+", text) else f'"{text}"'
