"""The name of the CRD of a group and kind, as Cluster API computes it without asking the server.

Theory.      A reference in Cluster API holds group and kind, and a CRD is named by group and plural. The core
             derives the plural from the kind in lower case, as English of a kind, by a fixed table: irregular
             words first, then their endings, then the endings of regular words. Providers name their CRDs to
             suit, so a name that differs from upstream's by one letter finds nothing. Strange results
             (``repo`` becomes ``repoes``, ``alias`` at the end of a word stays) are upstream's.
Invariants.  ``plural_of`` never fails, and its result for lower case letters and digits is upstream's. Only
             for a kind that is nothing but one of a few abbreviations in S (``DNS``) does upstream's result
             hold capitals; no CRD can have such a name, and ours is the regular plural.
Source       S1-03; the words are those of github.com/gobuffalo/flect v1.0.2.
             The last three are abbreviations that it knows, and therefore reads in capitals.
Called by    what resolves references to provider kinds; where the name finds nothing, discovery is asked.
"""

from collections.abc import Iterator
from functools import cache

from kubewright.base.limits import remembered

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
