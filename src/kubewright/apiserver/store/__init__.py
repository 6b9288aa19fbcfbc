"""The store: versioned JSON bytes, in memory for reading, in SQLite for keeping.

``store``     all of it together: reading, indexes, staging, group commit
``history``   records, and the changes remembered for watches and for lists as of a version
``watchers``  the receivers of changes, each a place in the history
``log``       where writes are kept: an SQLite file, or nowhere; the folder's lock
``copies``    a copy of the data, and a copy in the place of the data
"""

from kubewright.apiserver.store.history import Change as Change
from kubewright.apiserver.store.history import Compacted as Compacted
from kubewright.apiserver.store.history import Record as Record
from kubewright.apiserver.store.history import record_of as record_of
from kubewright.apiserver.store.store import Having as Having
from kubewright.apiserver.store.store import Refused as Refused
from kubewright.apiserver.store.store import Store as Store
from kubewright.apiserver.store.watchers import Watcher as Watcher
