"""Requests without sockets: the client, the call, and answers that come later."""
