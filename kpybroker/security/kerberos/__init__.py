"""Kerberos by the system's own library (the extra ``kerberos``): keytabs, tickets, security contexts. May block."""
