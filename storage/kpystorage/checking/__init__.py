"""Finding damage in the files of log directories without a broker, and mending it.

Finding only reads. Mending never deletes: a file that it changes is set aside under another name first.
"""
