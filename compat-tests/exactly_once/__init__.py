"""Whether a broker keeps what transactions promise, judged by what clients saw: histories, and a checker of them.

``history`` is what is written down, ``checker`` the judge. Nothing of the two knows a client or a broker.
"""
