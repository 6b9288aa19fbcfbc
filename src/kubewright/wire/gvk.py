"""Groups, versions, kinds and resources, and the names and paths that they have on the wire.

Theory.      Of several versions a client is to prefer stable ones to beta to alpha, and of two equally mature
             ones the higher number: ``v10`` before ``v2`` before ``v2beta1`` before ``v11alpha1``. What does
             not look like a version comes last, in alphabetical order.
             A reference in Cluster API holds group and kind, and a CRD is named by group and plural. The core
             derives the plural from the kind in lower case, as English of a kind, by a fixed table: irregular
             words first, then their endings, then the endings of regular words. Providers name their CRDs to
             suit, so a name that differs from upstream's by one letter finds nothing. Strange results
             (``repo`` becomes ``repoes``, ``alias`` at the end of a word stays) are upstream's.
Invariants.  The order of versions is total: the same versions give the same list, however they were given.
             ``plural_of`` never fails, and its result for lower case letters and digits is upstream's. Only
             for a kind that is nothing but one of a few abbreviations in S (``DNS``) does upstream's result
             hold capitals; no CRD can have such a name, and ours is the regular plural.
Source       S1-03. The words are those of github.com/gobuffalo/flect v1.0.2.
             The last three are abbreviations that it knows, and therefore reads in capitals.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from msgspec import Struct

from kubewright.base.limits import number_of, remembered


class Key(Struct, frozen=True, gc=False):
    """The namespace and name of an object: what a controller works on.

    Cluster-scoped objects have the namespace ``""``.

    A Struct, because caches and queues hash and compare keys all the time: it is four times as fast.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as an API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = field(default=(), compare=False)

    @property
    def api_version(self) -> str:
        """``v1`` for the core group, ``group/version`` for all others."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path: of the collection, or of one object, or of its subresource.

        An empty namespace means all namespaces (collections) or cluster scope (objects).
        """
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def split_api_version(api_version: str) -> tuple[str, str]:
    """``apps/v1`` to (``apps``, ``v1``); ``v1`` to (``""``, ``v1``)."""
    group, _, version = api_version.rpartition("/")
    return group, version


_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGE = {None: 0, "beta": 1, "alpha": 2}
_NO_VERSION = 3

Rank = tuple[int, int, int, str]


def rank(version: str) -> Rank:
    """A sort key: the preferred version sorts first."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (_NO_VERSION, 0, 0, version)
    return (_STAGE[match[2]], -number_of(match[1]), -number_of(match[3] or "0"), "")


def by_preference(versions: Iterable[str]) -> list[str]:
    """The versions, the preferred one first."""
    return sorted(versions, key=rank)


def is_version(version: str) -> bool:
    """Whether this is the name of a version, such as ``v1`` or ``v1beta2``."""
    return _VERSION.fullmatch(version) is not None


def preferred(versions: Iterable[str]) -> str | None:
    """The one of these that a client is to take; None when none of them is a version."""
    return min((each for each in versions if is_version(each)), key=rank, default=None)


# singular[:plural[:other plural]]; alone: the plural is the same. "!": only as a whole word, never as the end
# of one. "~": its plural says nothing about other words.
_WORDS = """
aircraft beef:beef:beefs bison ~blues chassis deer fish:fish:fishes moose police salmon:salmon:salmons
series sheep shrimp:shrimp:shrimps species swine:swine:swines trout:trout:trouts tuna:tuna:tunas you
child:children !ox:oxen foot:feet goose:geese man:men human:humans !louse:lice mouse:mice tooth:teeth
woman:women !die:dice person:people adieu:adieux:adieus fabliau:fabliaux bureau:bureaus:bureaux
criterion:criteria ganglion:ganglia:ganglions lexicon:lexica:lexicons
mitochondrion:mitochondria:mitochondrions noumenon:noumena phenomenon:phenomena taxon:taxa media
~medium:media:mediums stadium:stadiums:stadia aquarium:aquaria:aquariums auditorium:auditoria:auditoriums
symposium:symposia:symposiums curriculum:curriculums:curricula quota:quotas alumnus:alumni:alumnuses
bacillus:bacilli cactus:cacti:cactuses coccus:cocci focus:foci:focuses locus:loci:locuses
nucleus:nuclei:nucleuses octopus:octupuses:octopi radius:radii:radiuses syllabus:syllabi
corpus:corpora:corpuses genus:genera alumna:alumnae vertebra:vertebrae differentia:differentiae
minutia:minutiae vita:vitae larva:larvae postcava:postcavae praecava:praecavae uva:uvae apex:apices:apexes
codex:codices:codexes index:indices:indexes latex:latices:latexes vertex:vertices:vertexes
vortex:vortices:vortexes appendix:appendices:appendixes radix:radices:radixes helix:helices:helixes
!axis:axes crisis:crises ~ellipsis:ellipses genesis:geneses oasis:oases thesis:theses testis:testes
base:bases ~basis:bases !alias:aliases vedalia:vedalias !use:uses abuse:abuses cause:causes clause:clauses
cruse:cruses excuse:excuses fuse:fuses house:houses misuse:misuses muse:muses pause:pauses ache:aches
topaz:topazes buffalo:buffaloes:buffalos potato:potatoes tomato:tomatoes equipment information jeans money
news rice dwarf:dwarfs:dwarves hoof:hoofs:hooves thief:thieves chive:chives hive:hives move:moves
movie:movies cookie:cookies pretorium:pretoriums agenda:agendas formula:formulas:formulae shoe:shoes
!toe:toes graffiti !eia:eias !ssh:sshs !tia:tias
"""
# In this order the first that fits decides.
_ENDINGS = """
tive:tives eaf:eaves oaf:oaves afe:aves arf:arves rfe:rves rf:rves lf:lves fe:ves ay:ays ey:eys oy:oys
quy:quies uy:uys y:ies eau:eaux bula:bulae dula:bulae lula:bulae nula:bulae vula:bulae hedron:hedra ium:ia
seum:seums eum:ea oum:oa stracum:straca dum:da elum:ela ilum:ila olum:ola ulum:ula llum:lla ylum:yla
imum:ima ernum:erna gnum:gna brum:bra crum:cra terum:tera serum:sera trum:tra antum:anta atum:ata entum:enta
etum:eta itum:ita otum:ota utum:uta ctum:cta ovum:ova trix:trices iasis:iases mesis:meses kinesis:kineses
resis:reses gnosis:gnoses opsis:opses ysis:yses ouse:ouses lause:lauses us:uses ch:ches io:ios sh:shes
ss:sses ez:ezzes iz:izzes tz:tzes zz:zzes ano:anos lo:los to:tos oo:oos o:oes x:xes
"""


def crd_name(group: str, kind: str) -> str:
    """``<plural>.<group>`` (``machines.cluster.x-k8s.io``): where Cluster API looks for the CRD of a kind."""
    return f"{plural_of(kind)}.{group}"


@remembered(1024)
def plural_of(kind: str) -> str:
    """The plural of a kind (``IPAddress``: ``ipaddresses``), in lower case.

    Remembered: kinds are few, and each look at a reference asks.
    """
    word = kind.lower()
    if (known := _plurals().get(word)) is not None:
        return known
    for singular, plural in _suffixes():
        if word.endswith(plural):
            return word
        if word.endswith(singular):
            return word.removesuffix(singular) + plural
    return word if word.endswith("s") else f"{word}s"


@cache
def _plurals() -> dict[str, str]:
    """Whole words with their plurals; a plural stands for itself, unless it is a singular too."""
    found: dict[str, str] = {}
    for mark, singular, *plurals in _words():
        found.update({} if mark == "~" else {plural: plural for plural in plurals})
        found[singular] = plurals[0]
    return {**found, **{singular: plurals[0] for _, singular, *plurals in _words()}}


@cache
def _suffixes() -> tuple[tuple[str, str], ...]:
    """Endings of words with what stands in the plural: irregular words, the last first; then regular ones."""
    irregular = [(singular, plurals[0]) for mark, singular, *plurals in _words() if mark != "!"]
    regular = [(singular, plural) for singular, plural in (pair.split(":") for pair in _ENDINGS.split())]
    return (*reversed(irregular), *regular)


def _words() -> Iterator[list[str]]:
    """Mark, singular, plurals (at least one)."""
    for entry in _WORDS.split():
        mark = entry[0] if entry[0] in "!~" else ""
        singular, *plurals = entry.removeprefix(mark).split(":")
        yield [mark, singular, *(plurals or [singular])]
