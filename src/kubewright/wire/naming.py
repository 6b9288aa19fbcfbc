"""The syntax of names, label keys and label values, with kube-apiserver's error messages.

Theory.      Each check returns a list of error messages; an empty list means valid. The messages are
             those of the real server, because users search for them and some clients show them.
Called by    ``wire.selectors`` and the ``apiserver`` (names of objects, labels).
"""

import re

LABEL_VALUE = 63
"""The most characters that the value of a label may have."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_QUALIFIED})?"


def _with_examples(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


_LABEL_RULE = _with_examples(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL, "my-name", "123-abc",
)  # fmt: skip
SUBDOMAIN_RULE = _with_examples(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN, "example.com",
)  # fmt: skip
_QUALIFIED_RULE = _with_examples(
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _QUALIFIED, "MyName", "my.name", "123-abc",
)  # fmt: skip
VALUE_RULE = _with_examples(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _VALUE, "MyValue", "my_value", "12345",
)  # fmt: skip

_label = re.compile(_LABEL).fullmatch
is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_qualified = re.compile(_QUALIFIED).fullmatch
is_value = re.compile(_VALUE).fullmatch


def dns_label(text: str) -> list[str]:
    """Complaints about ``text`` as a DNS-1123 label (names of namespaces): at most 63 characters."""
    rule = "must not contain dots" if is_subdomain(text) and not _label(text) else _LABEL_RULE
    return _checked(text, "63 characters", _label(text), rule)


def dns_subdomain(text: str) -> list[str]:
    """Complaints about ``text`` as a DNS-1123 subdomain (most names): at most 253 characters."""
    return _checked(text, "253 characters", is_subdomain(text), SUBDOMAIN_RULE)


def path_segment(text: str) -> list[str]:
    """Complaints about ``text`` as one part of a URL path (names of RBAC objects)."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in text]


def label_key(text: str) -> list[str]:
    """Complaints about ``[prefix/]name`` as the key of a label or an annotation."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        shape = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_QUALIFIED_RULE} {shape}"]
    complaints = []
    if slash and not prefix:
        complaints.append("prefix part must be non-empty")
    elif prefix:
        complaints += [f"prefix part {said}" for said in dns_subdomain(prefix)]
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name) > 63:
        complaints.append("name part must be no more than 63 bytes")
    if not _qualified(name):
        complaints.append(f"name part {_QUALIFIED_RULE}")
    return complaints


def label_value(text: str) -> list[str]:
    """Complaints about ``text`` as the value of a label: at most 63 characters, may be empty."""
    return _checked(text, "63 bytes", is_value(text), VALUE_RULE)


def machine_name_problem(name: str) -> str:
    """What is wrong with the name of a machine, in a clause; empty if nothing is. Its node carries the name
    as the value of a label, and a VM that was made could not be recorded without."""
    long = len(name.encode()) > LABEL_VALUE
    return f"must be no more than {LABEL_VALUE} characters, as its node's label has it" if long else ""


def _checked(text: str, limit: str, matched: re.Match[str] | None, rule: str) -> list[str]:
    long = [f"must be no more than {limit}"] if len(text.encode()) > int(limit.split(maxsplit=1)[0]) else []
    return long if matched else [*long, rule]
