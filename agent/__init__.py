"""The lab's own subject: a LangChain agent whose tools call the lab's services.

Imports the library up to ``state``, ``recovery`` and ``subjects``.
"""
