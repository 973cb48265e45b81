"""What users and our own tests share: fakes of the real parts and one contract suite per port.

The suites need pytest and hypothesis: ``pip install headrace[testing]``. Nothing in production
imports it.
"""
