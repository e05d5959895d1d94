"""Messages as a shell or a study's file has them: options that the Python text names, spelt as they are there."""

import re
from collections.abc import Iterable
from typing import Final

from privreg.options.table import TABLE, Option, of_verb

_NUMBER: Final = r"[-+]?(?:nan|inf|\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_VALUE: Final = rf"\{{[^{{}}]*\}}|\([^()]*\)|[A-Z]\w*\([^()]*\)|'[^']*'|\"[^\"]*\"|{_NUMBER}\b|<\w+>|True\b|None\b"
_SAID: Final = re.compile(
    rf"(?<!=)\b\w+\([^()]*\)|(?<![\w'\"=-])(?P<name>[a-z_]+)(?:=(?P<value>{_VALUE})?(?![\w{{\[(<='\"])"
    r"|\[(['\"])(?P<column>.+?)\3\](?: = (?P<pair>\([^()]*\)))?|(?![\w='\"]))"
)
_ENTRY: Final = re.compile(r"(['\"])(.+?)\1: (\([^()]*\)|\[[^\[\]]*\]|\.\.\.)")
_WORDS: Final = ("alpha", "exponentiate")  # Options that messages name as words of their own
_PYTHON: Final = frozenset(o.name for o in TABLE if o.doors)
_BEGINS, _ENDS = re.compile(r"; |, or |, and |(?<=\.) "), re.compile(r"; |\.(?= |$)|$")  # Parts that may be lacking
_PLACES: Final = re.compile(r"\((low|mean), (high|sd)\)")


def in_shell(message: str, verb: str) -> str:
    """A message with the options that it names as a verb of the command line spells those that it takes.

    If it names an option of the shell already, nothing is changed. Advice that no verb can follow is left out.
    """
    if "--" in message:
        return message
    options = {o.name: o for o in of_verb(verb) if not o.kind.startswith("word")}

    def spelt(found: re.Match[str]) -> str:
        if (option := options.get(found["name"] or "")) is None:
            return found[0]
        if found["column"] is not None:
            pair = f"={_declared(option, found['pair'])}" if found["pair"] else ""
            return f"{option.spelt} {quoted(found['column'] + pair)}"
        if "=" not in found[0]:
            return option.spelt if "_" in option.name else found[0]
        value = found["value"]
        if value in {None, "True"}:
            return option.spelt
        if value == "None":
            return f"{option.spelt} none" if option.kind == "names" else found[0]
        if value[0] == "{":
            said = [quoted(f"{name}={_declared(option, one)}") for _, name, one in _ENTRY.findall(value)]
        elif value[0] == "(":
            said = re.findall(r"\w+", value)
        elif family := _family(value):
            said = [family[0], *(f"--{k.replace('_', '-')} {v}" for k, v in family[1])]
        else:
            said = [quoted(value.strip("'\""))]
        return " ".join([option.spelt, *said])

    message = message.replace("pr.plan says", "privreg plan says")
    if "no_privacy" in options:
        message = re.sub(r"mu=None|\bNone(?= for a fit without privacy)", "--no-privacy", message)
    message = _PLACES.sub(lambda m: f"{m[1]}:{m[2]}".upper(), _SAID.sub(spelt, _followed(message, options)))
    here = [options[name].spelt for name in _WORDS if name in options and re.search(rf"\b{name}\b(?!=)", message)]
    forms = [o for o in options.values() if o.kind in {"pairs", "levels"} and re.search(rf"\b{o.name}[=\[]", message)]
    here = [*(f"{o.spelt} {o.metavar}" for o in forms), *(h for h in here if h not in message)]
    return f"{message} (here: {', '.join(here)})" if here else message


def in_study(message: str) -> str:
    """A message as a study's file has it: its keys in YAML. Advice that such a file has no key for is left out."""
    options = {o.name: o for o in of_verb("study") if not o.kind.startswith("word")}
    planned = {o.name for o in TABLE if o.takes("plan.formula") and options.get(o.name, o).families}

    def spelt(found: re.Match[str]) -> str:
        option = options.get(found["name"] or "")
        if option is None or ("=" not in found[0] and found["column"] is None):
            return found[0]
        if found["column"] is not None:
            said = f"{option.name}: {{{found['column']}: {_listed(found['pair'] or '')}}}"
            return said if found["pair"] else f"{option.name} of {found['column']!r}"
        if found["value"] in {None, "None"} and option.families:
            return f"family: {{{option.families.split()[0]}: {{{option.name}: {option.metavar}}}}}"
        value = found["value"] or ""
        if value[:1] == "{":
            said = f"{{{', '.join(f'{name}: {_listed(one)}' for _, name, one in _ENTRY.findall(value))}}}"
        elif family := _family(value):
            constants = ", ".join(f"{k}: {v}" for k, v in family[1])
            said = f"{{{family[0]}: {{{constants}}}}}" if constants else family[0]
        else:
            said = _listed(value)
        return f"{option.name}: {said}".rstrip()

    message = re.sub(r" \(or None[^()]*\)| to the model\b", "", _followed(message, options, planned))
    return _PLACES.sub(r"[\1, \2]", _SAID.sub(spelt, message))


_FAMILY_AS_IT_IS: Final = re.compile(r"\bthis is [A-Z]\w*\([^()]*\)")


def _followed(message: str, options: Iterable[str], planned: Iterable[str] = ()) -> str:
    """A message without the parts that advise an option of Python that is not among these, or Python itself.

    `planned` are options of a plan, advised without a value, that share their name with another option here.
    """
    names, bare = ("|".join(sorted(some)) for some in (_PYTHON - set(options), planned))
    lacking = re.compile(rf"(?<![\w'\"(.])(?:(?:{names})=(?!=)|(?:{bare or '$'})=(?![\w'\"(<-])|pr\.\w+)")
    at = 0
    while found := lacking.search(message, at):
        if any(m.start() < found.start() < m.end() for m in _FAMILY_AS_IT_IS.finditer(message)):
            at = found.end()  # a family with its constants is no advice
            continue
        begins = [m.start() for m in _BEGINS.finditer(message, 0, found.start())]
        ends = _ENDS.search(message, found.end())
        at = found.end()
        if begins and ends:
            whole, at = message[begins[-1]] == " ", begins[-1]  # True if it is a sentence, with its full stop
            before = message[:at] if ends.end() > ends.start() else message[:at].rstrip(".")
            message = before + message[ends.end() if whole else ends.start() :]
    return message


def _family(value: str) -> tuple[str, list[tuple[str, str]]] | None:
    """Name and options of a family as Python has it, such as Quantile(0.9); None if it is something else."""
    if (family := re.fullmatch(r"([A-Z]\w*)\((.*)\)", value)) is None:
        return None
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", family[1]).lower()
    constants = re.findall(r"(\w+)=([^,\s]+)", family[2])
    return name, constants or ([("tau", family[2])] if name in {"quantile", "expectile"} and family[2] else [])


def _listed(said: str) -> str:
    """A value as Python has it, as YAML has it."""
    if said in {"...", "[...]"}:
        return "[A, B]"
    return f"[{said[1:-1].strip(', ')}]" if said[:1] == "(" else said.strip("'\"")


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
