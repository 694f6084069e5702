"""The programs of documents, played."""
