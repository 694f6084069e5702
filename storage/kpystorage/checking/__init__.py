"""What is wrong with the files of log directories, found without a broker, and how it is mended.

Finding reads only. Mending never deletes: what it changes is set aside under another name first.
"""
