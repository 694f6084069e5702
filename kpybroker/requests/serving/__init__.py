"""The code that the handlers of several API keys share."""
