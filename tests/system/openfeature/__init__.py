"""What the tests with OpenFeature's own clients share: flags and cases, programs in JavaScript, code of the guide."""
