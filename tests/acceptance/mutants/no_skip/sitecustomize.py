"""A mutant: workers neither skip items with a result nor see that their vector is there already.

Python imports `sitecustomize` at start where it stands on PYTHONPATH.
"""

import sys

if any("celery" in argument for argument in sys.orig_argv):
    from sqlalchemy import text

    from app.storage import item_store
    from app.storage.vector_store import VectorStore

    item_store._PENDING_RUN = text(item_store._PENDING_RUN.text.replace("AND r.seq IS NULL", ""))
    VectorStore.known = lambda *_: {}
