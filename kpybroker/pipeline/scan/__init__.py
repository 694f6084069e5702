"""Ranges of offsets read as Arrow record batches, in parallel and without a group: for Spark, the lake and audits.

A plan is made once, in one place; its tasks are read anywhere. ``ranges`` says what is read, ``transport`` how
the bytes are got, ``reading`` turns a range into rows.
"""
