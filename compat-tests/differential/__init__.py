"""The same requests to Apache Kafka and to kpybroker, byte for byte, and their answers field by field.

``python -m differential --seconds 600`` plays random sequences; ``test_differential.py`` plays a few. A sequence is a
list of steps (`steps`) put together by an author with a seed (`author`); `playing` sends each to both brokers and
waits for both; `normalisation` names what must differ; `known` what does by decision; `shrinking` makes a sequence
short.
"""
