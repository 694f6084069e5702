"""Record batches to Arrow: the columns that Spark's Kafka source has, as pyarrow arrays.

It needs pyarrow and numpy (the extra ``spark``), which nothing else of kpywire imports, and it knows neither Spark nor
how the bytes came here.
"""
