"""The reading of a Fetch request's partitions, until there is enough to answer.

One `reader.Reader` serves all requests. It is made of two parts that differ between them:

- A **policy** (`answer.Policy`) says for whom is read: for a client (`client.ClientRead`) or for a replica that follows
  (`replica.ReplicaRead`). It decides what is noted about who reads, which end of the log they may see, what is read of
  one partition, what is answered there instead of records (a log that diverges, a better replica to read from), what
  must not wait, and what is counted.
- An **answer** (`answer.Answer`) is that of a session, or of a read that the broker remembers although its client has
  no session: then it has an `answer.Ledger`. It decides which of the partitions without records it holds, and makes
  the response.

The reader does what is common to them. It walks the partitions in their order, within the limits of an answer
(`answer.AnswerBudget`), and gives the first of them with records at least one batch. It finds their replicas,
has them notify the session of changes, and makes answers of errors. If there is too little to answer, it
waits, and reads what has changed. It reads many partitions in steps, so that others are served in between.
"""
