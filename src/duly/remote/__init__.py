"""A store that is elsewhere: the calls of the store's protocol, asked over HTTP.

calls       which of them may be asked, and by whom
shapes, writing, reading   their values as JSON, and back
answering   the half of whoever has the store, without any web framework
token       the secret that is shown with every call
line        one HTTP exchange after the other
store       the half of whoever asks: a ``Store`` as any other
"""
