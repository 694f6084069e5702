"""The test suites of public clients at pinned versions, run against any broker; see README.md beside this file."""
