"""EC2 as the driver calls it: clients are kept, questions gathered, answers remembered.

Theory.      An account is a region and credentials. Its client (aiobotocore, which signs, repeats and slows
             down by itself: adaptive mode) is costly to make and is kept, by a hash of the credentials. EC2
             allows an account few requests a second, and one DescribeInstances can answer two hundred
             questions. So questions are gathered for a moment and asked together (``Batches``). What changes
             rarely, AMIs and machine types, is remembered for an hour.
Invariants.  Only entries of ``CALLS`` are called. Each call ends in time, with an answer or an error of the
             vocabulary. A question is sent after it was asked, so its answer is never older than it.
             Credentials are in no message, no log and no repr. Clients, memories and questions are bounded.
Called by    ``driver``. No other module imports the library.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.driver.errors import Code, DriverError, InvalidArgument
from kubewright.providers.aws.calls import CALLS, Call, plain, refused
from kubewright.providers.aws.instances import KNOWN, Vm, tag_filters, vms
from kubewright.providers.aws.launch import Image, MachineType
from kubewright.providers.aws.spec import AwsSpec, Options

K = TypeVar("K")
V = TypeVar("V")
CONNECTIONS = 50
GATHER_SECONDS = 0.02
AT_ONCE = 200
"""Values of a filter that EC2 takes in one request."""

PAGE, MOST_PAGES = 1000, 200
REMEMBERED_SECONDS, MOST_REMEMBERED = 3600.0, 512
MOST_ACCOUNTS = 64
KEY_IDS = ("providerAccessKeyId", "accessKeyID")
SECRET_KEYS = ("providerSecretAccessKey", "secretAccessKey")
SESSION_TOKENS = ("providerSessionToken", "sessionToken")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds for a connection, for an answer, and for a call with all that the library repeats of it."""

    connect: float = 5.0
    read: float = 40.0
    call: float = 150.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """The keys of a Secret; all empty: those of this process."""

    key_id: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @property
    def digest(self) -> str:
        return hashlib.sha256("\0".join((self.key_id, self.secret_key, self.token)).encode()).hexdigest()


def credentials(data: Mapping[str, bytes], options: Options) -> Credentials:
    """The credentials in the data of a class's Secrets, by the names of MCM's Secrets or of Gardener's.

    Raises:
        DriverError: there are none, or one of them is missing (``Unauthenticated``).
    """
    key_id, secret_key = _text(data, KEY_IDS), _text(data, SECRET_KEYS)
    if key_id and secret_key:
        return Credentials(key_id, secret_key, _text(data, SESSION_TOKENS))
    if not key_id and not secret_key and options.ambient_credentials:
        return Credentials()
    lacking = KEY_IDS if not key_id else SECRET_KEYS
    allowed = "" if key_id or secret_key else ", and this program may not use its own (ambientCredentials)"
    text = f"the Secret of the class has no {' or '.join(lacking)}{allowed}"
    raise DriverError.of(Code.Unauthenticated, text)


def _text(data: Mapping[str, bytes], names: Sequence[str]) -> str:
    for name in names:
        if value := data.get(name, b"").strip():
            try:
                text = value.decode("ascii")
            except UnicodeDecodeError:  # its own text would show a byte of it
                raise DriverError.of(Code.Unauthenticated, f"{name} of the Secret is no text") from None
            if not text.isprintable() or " " in text:  # it becomes a part of a header
                wrong = f"{name} of the Secret has a space, a line break or a control character"
                raise DriverError.of(Code.Unauthenticated, wrong)
            return text
    return ""


class Batches(Generic[K, V]):
    """Questions that are gathered for a moment and asked together.

    ``fetch`` answers some keys; what it leaves out has no answer (None).
    """

    def __init__(self, clock: Clock, fetch: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._clock = clock
        self._fetch = fetch
        self._asked: dict[K, asyncio.Future[V | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def of(self, key: K) -> V | None:
        """The answer for a key, of a request that begins after this call."""
        if (found := self._asked.get(key)) is None:
            found = self._asked[key] = asyncio.get_running_loop().create_future()
            found.add_done_callback(lambda each: each.cancelled() or each.exception())
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await asyncio.shield(found)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        some: Mapping[K, asyncio.Future[V | None]] = {}
        try:
            while True:
                await self._clock.sleep(GATHER_SECONDS)
                some = {key: self._asked.pop(key) for key in list(self._asked)[:AT_ONCE]}
                await self._answer(some)
                if not self._asked:
                    return
        finally:
            ended = DriverError.of(Code.Unavailable, "this program ends its calls of EC2")
            for future in (*some.values(), *self._asked.values()):
                if not future.done():
                    future.set_exception(ended)
            self._asked.clear()

    async def _answer(self, some: Mapping[K, asyncio.Future[V | None]]) -> None:
        try:
            answers = await self._fetch(list(some))
        except DriverError as error:
            code, why = error.code, error.message
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            code, why = Code.Internal, plain(f"an answer of EC2's is none: {type(error).__name__}: {error}")
        else:
            for key, future in some.items():
                future.set_result(answers.get(key))
            return
        for future in some.values():
            future.set_exception(DriverError.of(code, why))


class Remembered(Generic[V]):
    """Answers that hold for an hour; of questions that had none, nothing is kept."""

    def __init__(self, clock: Clock, batches: Batches[str, V]) -> None:
        self._clock = clock
        self.batches = batches
        self._kept: OrderedDict[str, tuple[float, V]] = OrderedDict()

    async def of(self, key: str) -> V | None:
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic() - kept[0] < REMEMBERED_SECONDS:
            return kept[1]
        found = await self.batches.of(key)
        if found is not None:
            self._kept[key] = (self._clock.monotonic(), found)
            while len(self._kept) > MOST_REMEMBERED:
                self._kept.popitem(last=False)
        return found


Group = tuple[tuple[str, str], ...]
"""The mandatory tags of a class: questions for VMs with the same ones are asked together."""


class Account:
    """EC2 in one region, with one set of credentials."""

    def __init__(self, client: Any, region: str, clock: Clock, seconds: float) -> None:
        self._client = client
        self._seconds = seconds
        self.region = region
        self.users = 0
        self._named: Batches[tuple[Group, str], Sequence[Vm]] = Batches(clock, self._fetch_named)
        self._by_id: Batches[str, Vm] = Batches(clock, self._fetch_by_id)
        self._images = Remembered(clock, Batches(clock, self._fetch_images))
        self._types = Remembered(clock, Batches(clock, self._fetch_types))
        self._tags: Batches[str, Mapping[str, str]] = Batches(clock, self._fetch_tags)

    async def call(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """One call of EC2.

        Raises:
            DriverError: EC2 has refused it (``calls.Refused``), or did not answer.
        """
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        call = CALLS[operation]
        try:
            async with asyncio.timeout(self._seconds):
                answer: Mapping[str, Any] = await getattr(self._client, call.method)(**arguments)
        except TimeoutError:
            late = f"{operation}: EC2 did not answer within {self._seconds:g} s"
            raise DriverError.of(Code.DeadlineExceeded, late) from None
        except ClientError as error:
            found = error.response.get("Error", {})
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            raise refused(call, str(found.get("Code", "")), str(found.get("Message", "")), status) from None
        except (BotoCoreError, ResponseParserError, OSError, ValueError) as error:
            raise _unanswered(call, error) from None
        if not answer.get("ResponseMetadata", {}).get("RequestId"):  # or nothing would be found in it
            text = f"{operation}: what answered is not EC2: there is no requestId in it"
            raise DriverError.of(Code.Unavailable, text)
        return answer

    async def named(self, spec: AwsSpec, name: str) -> Sequence[Vm]:
        """The instances, in whatever state, that have a name and the mandatory tags of a class."""
        return await self._named.of((tuple(sorted(spec.mandatory_tags.items())), name)) or ()

    async def by_id(self, instance_id: str) -> Vm | None:
        """An instance in whatever state; None where EC2 does not show it."""
        return await self._by_id.of(instance_id)

    async def tags_of(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """The tags of volumes and interfaces, by their ids."""
        found = await asyncio.gather(*map(self._tags.of, ids))
        return {each: tags or {} for each, tags in zip(ids, found, strict=True)}

    async def listed(self, spec: AwsSpec) -> Sequence[Vm]:
        """The instances with the mandatory tags of a class that have not ended."""
        return await self._instances(*tag_filters(spec), _filter("instance-state-name", KNOWN))

    async def by_token(self, token: str) -> Sequence[Vm]:
        """What was made by the request with this ClientToken."""
        return await self._instances(_filter("client-token", [token]))

    async def image(self, spec: AwsSpec) -> Image:
        """The AMI of a class.

        Raises:
            InvalidArgument: this account has none of this id.
        """
        if (found := await self._images.of(spec.ami)) is None:
            text = f"providerSpec: ami: there is no {spec.ami} in {self.region} that this account may use"
            raise InvalidArgument(text)
        return found

    async def machine_type(self, spec: AwsSpec) -> MachineType:
        """The machine type of a class.

        Raises:
            InvalidArgument: the region has none of this name.
        """
        if (found := await self._types.of(spec.machine_type)) is None:
            text = f"providerSpec: machineType: there is no {spec.machine_type} in {self.region}"
            raise InvalidArgument(text)
        return found

    async def close(self) -> None:
        for each in (self._named, self._by_id, self._tags, self._images.batches, self._types.batches):
            await each.close()

    async def _instances(self, *filters: Mapping[str, Any]) -> Sequence[Vm]:
        found: list[Vm] = []
        async for answer in self._pages("DescribeInstances", PAGE, filters):
            found += vms(answer)
        return found

    async def _pages(
        self, operation: str, size: int, filters: Sequence[Mapping[str, Any]]
    ) -> AsyncIterator[Mapping[str, Any]]:
        token: Mapping[str, str] = {}
        for _ in range(MOST_PAGES):
            answer = await self.call(operation, Filters=list(filters), MaxResults=size, **token)
            yield answer
            if not (following := answer.get("NextToken")):
                return
            token = {"NextToken": following}
        raise DriverError.of(Code.Internal, f"{operation}: the answer has more than {MOST_PAGES} pages")

    async def _fetch_named(
        self, asked: Sequence[tuple[Group, str]]
    ) -> Mapping[tuple[Group, str], Sequence[Vm]]:
        groups: dict[Group, list[str]] = {}
        for group, name in asked:
            groups.setdefault(group, []).append(name)
        found: dict[tuple[Group, str], list[Vm]] = {}

        async def fetch(group: Group, names: Sequence[str]) -> None:
            tags = [_filter(f"tag:{key}", [value]) for key, value in group]
            for vm in await self._instances(*tags, _filter("tag:Name", names)):
                found.setdefault((group, vm.tag("Name")), []).append(vm)

        failed = await asyncio.gather(*(fetch(*each) for each in groups.items()), return_exceptions=True)
        for each in failed:
            if each is not None:
                raise each
        return found

    async def _fetch_by_id(self, ids: Sequence[str]) -> Mapping[str, Vm]:
        """By a filter: EC2 refuses a request for ids of which it does not know one."""
        return {vm.instance_id: vm for vm in await self._instances(_filter("instance-id", ids))}

    async def _fetch_tags(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = {}
        async for answer in self._pages("DescribeTags", PAGE, [_filter("resource-id", ids)]):
            for each in answer.get("Tags", ()):
                tags = found.setdefault(str(each.get("ResourceId", "")), {})
                tags[str(each.get("Key", ""))] = str(each.get("Value", ""))
        return found

    async def _fetch_images(self, ids: Sequence[str]) -> Mapping[str, Image]:
        found: dict[str, Image] = {}
        async for answer in self._pages("DescribeImages", PAGE, [_filter("image-id", ids)]):
            for each in answer.get("Images", ()):
                image = Image(str(each.get("RootDeviceName", "")), str(each.get("Architecture", "")))
                found[str(each.get("ImageId", ""))] = image
        return found

    async def _fetch_types(self, names: Sequence[str]) -> Mapping[str, MachineType]:
        found: dict[str, MachineType] = {}
        filters = [_filter("instance-type", names)]
        async for answer in self._pages("DescribeInstanceTypes", 100, filters):
            for each in answer.get("InstanceTypes", ()):
                found[str(each.get("InstanceType", ""))] = MachineType(
                    vcpus=int(each.get("VCpuInfo", {}).get("DefaultVCpus", 0)),
                    memory_mib=int(each.get("MemoryInfo", {}).get("SizeInMiB", 0)),
                    architectures=tuple(each.get("ProcessorInfo", {}).get("SupportedArchitectures", ())),
                )
        return found


class Accounts:
    """The accounts of all classes, each with its client, made when it is first asked for."""

    def __init__(self, options: Options, clock: Clock, deadlines: Deadlines) -> None:
        self._options = options
        self._deadlines = deadlines
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], tuple[Account, AsyncExitStack]] = OrderedDict()
        self._session: Any = None
        self._opening = asyncio.Lock()
        self._closed = False

    @asynccontextmanager
    async def of(self, region: str, found: Credentials) -> AsyncIterator[Account]:
        """The account, which is not closed inside of the block."""
        async with self._opening:
            account = await self._opened(region, found)
            account.users += 1
        try:
            yield account
        finally:
            account.users -= 1

    async def close(self) -> None:
        async with self._opening:
            self._closed = True
            for account, stack in self._kept.values():
                await account.close()
                await stack.aclose()
            self._kept.clear()

    async def _opened(self, region: str, found: Credentials) -> Account:
        key = (region, found.digest)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        if self._closed:
            raise DriverError.of(Code.Unavailable, "this program ends its calls of EC2")
        await self._make_room()
        from botocore.exceptions import BotoCoreError

        stack = AsyncExitStack()
        try:
            async with asyncio.timeout(self._deadlines.call):  # of this process: by a program, or from afar
                client = await stack.enter_async_context(await self._client(region, found))
        except TimeoutError:
            text = f"this process was given no credentials within {self._deadlines.call:g} s"
            raise DriverError.of(Code.Unavailable, text) from None
        except (BotoCoreError, OSError, ValueError) as error:
            raise _unanswered(CALLS["DescribeInstances"], error) from None
        self._kept[key] = (Account(client, region, self._clock, self._deadlines.call), stack)
        return self._kept[key][0]

    async def _make_room(self) -> None:
        """Close those that were not used for the longest time, and are not used now."""
        for key, (account, stack) in list(self._kept.items()):
            if len(self._kept) < MOST_ACCOUNTS:
                return
            if not account.users:
                del self._kept[key]
                await account.close()
                await stack.aclose()
        if len(self._kept) >= MOST_ACCOUNTS:
            raise DriverError.of(
                Code.Unavailable, f"{MOST_ACCOUNTS} accounts of AWS are in use at this moment"
            )

    async def _client(self, region: str, found: Credentials) -> Any:
        from aiobotocore.config import AioConfig

        if self._session is None:
            self._session = await asyncio.to_thread(_session)  # not in the loop
        config = AioConfig(
            connect_timeout=self._deadlines.connect,
            read_timeout=self._deadlines.read,
            max_pool_connections=CONNECTIONS,
            retries={"mode": "adaptive", "total_max_attempts": self._options.attempts},
            user_agent_extra="kubewright",
        )
        return self._session.create_client(
            "ec2",
            region_name=region,
            endpoint_url=self._options.endpoint_url or None,
            aws_access_key_id=found.key_id or None,
            aws_secret_access_key=found.secret_key or None,
            aws_session_token=found.token or None,
            config=config,
        )


@cache
def _description() -> Any:
    """The library's description of EC2, which is read once in a process, for a third of a second."""
    from aiobotocore.session import get_session

    session = get_session()
    session.warm_up_loader_caches("ec2")
    return session.get_component("data_loader")


def _session() -> Any:
    """The library, with the credentials of this process as they are now."""
    from aiobotocore.session import get_session

    session = get_session()
    session.register_component("data_loader", _description())
    return session


def require_library() -> None:
    """Refuse to go on without aiobotocore.

    Raises:
        InvalidInput: it is not installed; says how it is.
    """
    from importlib.util import find_spec

    if find_spec("aiobotocore") is None:
        raise InvalidInput("driver aws needs aiobotocore: `pip install 'kubewright[aws]'`")


def _filter(name: str, values: Sequence[str]) -> Mapping[str, Any]:
    return {"Name": name, "Values": list(values)}


def _unanswered(call: Call, error: Exception) -> DriverError:
    """The error for what the library raises where EC2 has not answered. A request that was sent may have been
    carried out; one of wrong arguments, or without credentials, was not sent."""
    from botocore import exceptions, parsers

    kinds: Sequence[tuple[tuple[type[Exception], ...], Code]] = (
        ((exceptions.ReadTimeoutError,), Code.DeadlineExceeded),
        (
            (
                exceptions.NoCredentialsError,
                exceptions.PartialCredentialsError,
                exceptions.CredentialRetrievalError,
                exceptions.TokenRetrievalError,
                exceptions.ProfileNotFound,
            ),
            Code.Unauthenticated,
        ),
        ((exceptions.ParamValidationError, exceptions.InvalidRegionError), Code.InvalidArgument),
        (
            (exceptions.HTTPClientError, exceptions.ConnectionError, parsers.ResponseParserError, OSError),
            Code.Unavailable,
        ),
    )
    code = next((code for kind, code in kinds if isinstance(error, kind)), Code.Internal)
    return DriverError.of(code, plain(f"{call.operation}: {str(error) or type(error).__name__}"))
