"""Names, label keys and values: which are valid, and the message for others."""

import pytest

from kubewright.wire import naming


@pytest.mark.parametrize(
    ("check", "text", "complaint"),
    [
        (naming.dns_label, "a-1", ""),
        (naming.dns_label, "a.b", "must not contain dots"),
        (naming.dns_label, "A", "a lowercase RFC 1123 label must consist of"),
        (naming.dns_label, "a" * 64, "must be no more than 63 characters"),
        (naming.dns_subdomain, "a.b-c.d1", ""),
        (naming.dns_subdomain, "a..b", "a lowercase RFC 1123 subdomain must consist of"),
        (naming.dns_subdomain, "-a", "a lowercase RFC 1123 subdomain must consist of"),
        (naming.dns_subdomain, "", "a lowercase RFC 1123 subdomain must consist of"),
        (naming.dns_subdomain, "a" * 254, "must be no more than 253 characters"),
        (naming.path_segment, "system:node", ""),
        (naming.path_segment, "a/b", "may not contain '/'"),
        (naming.path_segment, "..", "may not be '..'"),
        (naming.label_key, "app", ""),
        (naming.label_key, "example.com/App_1", ""),
        (naming.label_key, "/a", "prefix part must be non-empty"),
        (naming.label_key, "a/", "name part must be non-empty"),
        (naming.label_key, "a/b/c", "a valid label key must consist of"),
        (naming.label_key, "A.com/a", "prefix part a lowercase RFC 1123 subdomain"),
        (naming.label_key, "a" * 64, "name part must be no more than 63 bytes"),
        (naming.label_value, "", ""),
        (naming.label_value, "a_b.c-1", ""),
        (naming.label_value, "a b", "a valid label must be an empty string or consist of"),
        (naming.label_value, "a" * 64, "must be no more than 63 bytes"),
    ],
    ids=lambda value: getattr(value, "__name__", value[:20] if isinstance(value, str) else value),
)
def test_a_name_passes_or_is_complained_about(check: object, text: str, complaint: str) -> None:
    complaints = check(text)  # type: ignore[operator]
    assert complaints == [] if not complaint else complaints[0].startswith(complaint), complaints
