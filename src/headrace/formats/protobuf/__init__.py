"""Protobuf as columns: which message it is, what its fields become, and how these are filled.

Protobuf's own library reads the bytes; what is here makes columns of its messages.
"""
