"""Patterns of RE2, with and without what RegExp lacks, and texts that tell them apart."""

from __future__ import annotations

TRANSLATED = [
    *("ada", "^ada$", "a.b", "a[^b]c", "(a|b)+c", "a{2,3}?b", "a{,2}", "x*", "^$", "a|", "{", "}", "]", "a{b"),
    *("(?i)ada", "(?s)a.b", "(?m)^b$", "(?ms)^b.*c$", "(?is)A.B", "(?s:a.)b", "(?-s)a.b", "(?U)a+b", "(?i)1.2"),
    *("(?P<name>a)b", "(?<name>a)b", "(?:a)b", "((?P<x>a)|b)\\z", "\\Aada\\z", "\\Aada$", "a\\Q.b+\\Ec", "\\Qa.b\\E+"),
    *("\\pN", "\\p{N}+$", "\\PN", "\\p{Greek}", "\\p{^Greek}", "\\P{Lu}", "\\p{Lu}", "[\\pN_]", "[^\\pL]", "\\p{C}"),
    *("\\d", "\\D", "\\s", "\\S", "\\w", "\\W", "\\bada\\b", "\\Bd", "[\\d.]", "[\\s]", "[^\\s]", "[^\\w]", "[\\D]x"),
    *("[[:alpha:]]", "[[:^digit:]]", "[^[:space:]]", "[[:punct:]]", "[[:word:]-]", "[[:alnum:]_]", "[[:cntrl:]]"),
    *("[]a]", "[^]a]", "[a-]", "[-a]", "[a\\-z]", "[\\]]", "[\\x41-\\x43]", "\\x{1F600}", "\\x41", "\\07", "\\101"),
    *("\\a", "\\f", "\\n", "\\r", "\\t", "\\v", "\\.", "\\-", "\\_", "\\@", "\\/", "[\\.]", "\\$", "\\^", "a$b"),
    *("^*a", "(^)*a", "(a*)*b", "(|a)b", "[^a-z]", "[a-z]", "\\bs", "(?i)^a(?s).b", "😀", "[😀-😂]", "[à-ü]"),
    *("ß", "é", "k", "S", "ς"),
]
"""What RegExp can search for in the same way, if not always as it is written."""

REFUSED = ["(?i:a)b", "a(?-i)b(?i)c", "\\C"]
"""What it cannot, whether case is ignored or not."""

TEXTS = [
    *("", "ada", "ADA", "a.b", "a\nb", "a\rb", "a\u2028b", "ada\n", "aab", "aaab", "ab", "b", "c", "abc", "aBc"),
    *("a\nb\nc", "a.b+c", "a.bb", "12", "x12", "\u0663", "Ωmega", "ς", "Σ", "\u03c3", "\u017f", "\u212a"),
    *("k", "K", "s", "S", "ß", "ẞ", "É", "é", "À", "A", "_", "-", "]", "{", "}", "a{b", "a{,2}", "😀", "😁"),
    *(" ", "\v", "\u00a0", "\t", "\0", "\x07", "\f", "\r", "$", "^", "@", "/", "x", "1x", "ax", "1.2", "1a2"),
    *("\u0378", "\ufffd", "ad ada ad", "\u017fa", "\u212aada", "ABC", "Abc"),
]
