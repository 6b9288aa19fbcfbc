"""The store: versioned JSON bytes, in memory for reading, in SQLite for keeping.

``records``   what is stored, and what one write changed
``log``       where writes are kept: an SQLite file, or nowhere; the folder's lock
``history``   the changes remembered for watches and for lists as of a version
``index``     the keys of the objects that have a value
``watchers``  the receivers of changes, each a place in the history
``store``     all of it together: reading, staging, group commit
"""

from kubewright.apiserver.store.history import Compacted as Compacted
from kubewright.apiserver.store.index import Having as Having
from kubewright.apiserver.store.records import Change as Change
from kubewright.apiserver.store.records import Record as Record
from kubewright.apiserver.store.records import record_of as record_of
from kubewright.apiserver.store.store import Refused as Refused
from kubewright.apiserver.store.store import Store as Store
from kubewright.apiserver.store.watchers import Watcher as Watcher
