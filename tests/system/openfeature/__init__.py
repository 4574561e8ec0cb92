"""Shared by the tests with OpenFeature's clients: flags and cases, programs in JavaScript, code of
the guide.
"""
