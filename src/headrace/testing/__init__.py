"""What users and our own tests share: twins of the real parts and one contract suite per port.

Needs pytest and hypothesis. Nothing in production imports it.
"""
