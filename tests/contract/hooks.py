"""What a description cannot say about tokens: which ones a cluster has given out, and that they go with one consistency only.

Well-formed ones that the tool draws are replaced by one of the default bucket that every node has. What is drawn to be wrong stays wrong.
"""

import re

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    token = (case.headers or {}).get("Dictum-Token")
    if not re.fullmatch("[0-9]{1,20}:[0-9]{1,20}", str(token)):
        return
    if case.headers.get("Dictum-Consistency") in ("linearizable", "local"):
        del case.headers["Dictum-Token"]
    else:
        case.headers["Dictum-Token"] = "0:0"
