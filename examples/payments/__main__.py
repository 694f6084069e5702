"""``python -m examples.payments``: ends with code 1 if a total is not exact to the cent."""

from kpybroker.pipeline.demo.extras import need, need_java

if __name__ == "__main__":
    need("kafka", "pyspark", "rich")
    need_java()
    from examples.payments.demo import main

    main(prog_name="python -m examples.payments")
