"""What a handler changes for its process, and what the next one sees of it."""

import contextvars
import decimal
import gc
import locale
import logging
import os
import resource
import signal
import socket
import sys
import threading
from contextlib import suppress

import cloudpickle
import pyarrow as pa
import pytest
from task_bench import Bench, ListSink, by_tenant, with_tenant

from headrace.spark.load_settings import before_load, load_apart
from headrace.spark.process_settings import run_apart
from headrace.spark.timeouts import bounded
from headrace.spark.worker_cache import WorkerCache

WHO = contextvars.ContextVar("who", default="nobody")


def go_elsewhere(folder):
    os.chdir(folder)


def go_where_nothing_is(folder):
    (folder / "gone").mkdir()
    os.chdir(folder / "gone")
    (folder / "gone").rmdir()


def make_files_private(_folder):
    os.umask(0o777)


def trap_inexact(_folder):
    decimal.getcontext().traps[decimal.Inexact] = True


def round_to_one_digit(_folder):
    decimal.setcontext(decimal.Context(prec=1))


def flatten_the_stack(_folder):
    sys.setrecursionlimit(200)


def take_signals(_folder):
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)


def bind_a_name(_folder):
    WHO.set("acme")


def trace(_folder):
    sys.settrace(lambda *_: None)
    sys.setprofile(lambda *_: None)
    threading.settrace(lambda *_: None)
    threading.setprofile(lambda *_: None)


def keep_threads_waiting(_folder):
    sys.setswitchinterval(5.0)


def give_sockets_no_time(_folder):
    socket.setdefaulttimeout(0.001)


def shorten_numbers(_folder):
    sys.set_int_max_str_digits(640)


def block_signals(_folder):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM})


def keep_to_one_processor(_folder):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def give_threads_little(_folder):
    threading.stack_size(65536)


def silence_all(_folder):
    logging.disable(logging.CRITICAL)


def find_modules_elsewhere(folder):
    sys.path.insert(0, str(folder))


def find_no_modules(_folder):
    sys.path = []


def give_new_threads_one_digit(_folder):
    decimal.DefaultContext.prec = 1


def trap_inexact_in_new_threads(_folder):
    decimal.DefaultContext.traps[decimal.Inexact] = True


def go_abroad(_folder):
    known = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8" if known == "C" else "C")


def let_arrow_have_one_thread(_folder):
    pa.set_cpu_count(pa.cpu_count() + 1)
    pa.set_io_thread_count(pa.io_thread_count() + 1)


def share_symbols(_folder):
    sys.setdlopenflags(sys.getdlopenflags() ^ os.RTLD_GLOBAL)


def hear_no_hangup(_folder):
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def looks():
    return sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()


def state():
    mode = os.umask(0o077)
    os.umask(mode)
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGCHLD)]
    exact = str(decimal.Decimal(1) / 3)
    given = sys.getswitchinterval(), sys.get_int_max_str_digits(), socket.getdefaulttimeout()
    depth, said = sys.getrecursionlimit(), WHO.get()
    return os.getcwd(), mode, depth, handlers, exact, given, looks(), said, may(), of_all()


def of_all():
    """What all threads and libraries have, those that begin as well."""
    numbers = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
    arrow = pa.cpu_count(), pa.io_thread_count()
    handlers = [signal.getsignal(number) for number in numbers]
    traps = dict(decimal.DefaultContext.traps)
    own = locale.setlocale(locale.LC_ALL), sys.getdlopenflags(), decimal.DefaultContext.prec, traps
    return arrow, handlers, own


def may():
    """What this thread, and those that it begins, may do; and where modules are found."""
    kept = threading.stack_size(), logging.root.manager.disable, list(sys.path), id(sys.path)
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    return signal.pthread_sigmask(signal.SIG_BLOCK, ()), processors, kept


ACTS = [
    go_elsewhere,
    go_where_nothing_is,
    make_files_private,
    trap_inexact,
    round_to_one_digit,
    flatten_the_stack,
    take_signals,
    bind_a_name,
    trace,
    keep_threads_waiting,
    give_sockets_no_time,
    shorten_numbers,
    block_signals,
    give_threads_little,
    silence_all,
    find_modules_elsewhere,
    find_no_modules,
    give_new_threads_one_digit,
    trap_inexact_in_new_threads,
    go_abroad,
    let_arrow_have_one_thread,
    share_symbols,
    hear_no_hangup,
]
if hasattr(os, "sched_setaffinity"):
    ACTS.append(keep_to_one_processor)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.mark.parametrize("act", ACTS)
def test_it_is_as_before_however_the_call_ends(act, tmp_path):
    before = state()
    assert run_apart(lambda: [act(tmp_path), 1][1]) == 1
    assert state() == before

    def fail():
        act(tmp_path)
        raise ZeroDivisionError

    with suppress(ZeroDivisionError):
        run_apart(fail)
    assert state() == before


@pytest.mark.parametrize("act", ACTS)
def test_a_neighbour_sees_nothing_of_it(act, tmp_path, bench):
    before = state()

    def handler(table, context):
        if context.tenant == "acme":
            act(tmp_path)
        else:
            assert state() == before
        return with_tenant(table, context)

    receipts = by_tenant(bench.run(ListSink(), handler=handler))
    assert {name: receipt.error for name, receipt in receipts.items()} == {
        "acme": None,
        "bolt": None,
    }
    assert state() == before


class SettingSink(ListSink):
    """Gives all sockets of its worker no time when it writes."""

    def write(self, effects):
        give_sockets_no_time(None)
        return super().write(effects)


def test_what_a_sink_sets_when_it_writes_is_as_before(bench):
    before = state()
    bench.run(SettingSink(), handler=with_tenant)
    try:
        assert state() == before
    finally:
        socket.setdefaulttimeout(None)


@pytest.mark.parametrize("act", ACTS)
def test_it_is_as_before_when_a_module_is_imported_in_a_worker(act, tmp_path):
    before = state()
    assert WorkerCache().code("a", cloudpickle.dumps(Imported(act, tmp_path))) == "it is there"
    assert state() == before


class Imported:
    """Pickled, a module that does something to its process when it is imported there."""

    def __init__(self, act, folder):
        self.does = act, folder

    def __reduce__(self):
        return imported, self.does


def imported(act, folder):
    act(folder)
    return "it is there"


def fewer_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def variable():
    os.environ["OF_A_MODULE"] = "stays"


def test_a_load_leaves_no_limit_lower_than_before():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    load_apart(fewer_files)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


@pytest.mark.parametrize("name", ["RLIMIT_NPROC", "RLIMIT_STACK", "RLIMIT_MEMLOCK"])
def test_nor_any_that_only_some_systems_have(name):
    number = getattr(resource, name)
    before = soft, most = resource.getrlimit(number)
    lower = 1 << 22 if soft == resource.RLIM_INFINITY else soft - 1
    try:
        load_apart(lambda: resource.setrlimit(number, (lower, most)))
        assert resource.getrlimit(number) == before
    finally:
        resource.setrlimit(number, before)


OOM = "/proc/self/oom_score_adj"


@pytest.mark.skipif(not os.access(OOM, os.W_OK), reason="Linux's own")
def test_a_load_does_not_have_its_process_taken_first_when_memory_is_short(tmp_path):
    def taken_first():
        with open(OOM, encoding="ascii") as file:
            return int(file.read())

    def be_taken_first():
        with open(OOM, "w", encoding="ascii") as file:
            file.write(str(before + 1))

    before = taken_first()
    load_apart(be_taken_first)
    assert taken_first() == before


@pytest.mark.parametrize(
    ("before", "act", "named"),
    [(gc.enable, gc.disable, "gc.disable"), (gc.disable, gc.enable, "gc.enable")],
)
def test_a_load_leaves_the_collector_as_it_was(before, act, named):
    """In a driver it is off; and a large file is often read with it off, and then it is on."""
    collects = gc.isenabled()
    try:
        before()
        known = before_load()
        act()
        assert known.changed() == [named]
        known.put_back()
        assert known.changed() == []
    finally:
        (gc.enable if collects else gc.disable)()


@pytest.mark.parametrize(
    ("act", "named"),
    [
        (lambda: gc.set_threshold(10**9), "gc.set_threshold"),
        (lambda: gc.set_debug(gc.DEBUG_SAVEALL), "gc.set_debug"),
    ],
)
def test_a_load_leaves_how_garbage_is_collected_as_it_was(act, named):
    """Else a driver never collects again, or keeps all that it finds."""
    before = gc.get_threshold(), gc.get_debug()
    try:
        known = before_load()
        act()
        assert known.changed() == [named]
        known.put_back()
        assert known.changed() == []
        assert (gc.get_threshold(), gc.get_debug()) == before
    finally:
        gc.set_threshold(*before[0])
        gc.set_debug(before[1])


def test_a_load_leaves_no_file_that_is_told_of_signals():
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    before = before_load()
    try:
        signal.set_wakeup_fd(writes)
        assert before.changed() == ["signal.set_wakeup_fd"]
        before.put_back()
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reads)
        os.close(writes)


def leave_an_alarm():
    signal.alarm(1000)


def watch_over_itself():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 1000, 1000)


def alarm():
    left_s, again_s = signal.getitimer(signal.ITIMER_REAL)
    return left_s > 0, again_s, signal.getsignal(signal.SIGALRM)


@pytest.fixture
def no_alarm():
    """Before each act, as in a worker; the time limit of a test is such a one as well."""
    handler = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    timer = signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, *timer)


@pytest.mark.usefixtures("no_alarm")
@pytest.mark.parametrize("apart", [run_apart, load_apart])
@pytest.mark.parametrize("act", [leave_an_alarm, watch_over_itself])
def test_a_timer_that_would_end_the_process_in_the_call_of_another_is_stopped(act, apart):
    apart(act)
    assert alarm() == (False, 0.0, signal.SIG_DFL)
    bounded(lambda: None, 60.0)
    assert alarm() == (False, 0.0, signal.SIG_DFL)


@pytest.mark.usefixtures("no_alarm")
def test_so_is_one_that_is_set_by_a_load_in_another_thread():
    loading = threading.Thread(target=load_apart, args=(leave_an_alarm,))
    loading.start()
    loading.join()
    assert alarm() == (False, 0.0, signal.SIG_DFL)


@pytest.mark.usefixtures("no_alarm")
@pytest.mark.parametrize("act", [leave_an_alarm, lambda: signal.alarm(0), watch_over_itself])
def test_the_limit_of_a_call_in_which_something_is_loaded_stays(act):
    def call():
        before = alarm()
        load_apart(act)
        assert signal.getitimer(signal.ITIMER_REAL)[0] <= 60.0
        return before == alarm()

    assert bounded(call, 60.0)


@pytest.mark.usefixtures("no_alarm")
def test_a_load_in_another_thread_lets_a_call_of_the_main_thread_have_its_limit():
    begun, over = threading.Event(), threading.Event()
    loading = threading.Thread(target=load_apart, args=(lambda: [begun.set(), over.wait()],))

    def call():
        over.set()
        loading.join()
        return alarm()[0]

    loading.start()
    begun.wait()
    assert bounded(call, 60.0)


@pytest.mark.usefixtures("no_alarm")
def test_a_load_in_another_thread_sets_no_limit_again_of_a_call_that_is_over():
    begun, over = threading.Event(), threading.Event()
    loading = threading.Thread(target=load_apart, args=(lambda: [begun.set(), over.wait()],))
    bounded(lambda: [loading.start(), begun.wait()], 60.0)
    over.set()
    loading.join()
    assert not alarm()[0]


@pytest.mark.usefixtures("no_alarm")
def test_a_timer_is_told_by_its_name():
    before = before_load()
    watch_over_itself()
    assert before.changed() == ["signal.setitimer", "signal.signal"]
    before.put_back()
    assert before.changed() == []


def test_a_load_leaves_variables_of_the_environment_for_libraries_need_them(monkeypatch):
    monkeypatch.delenv("OF_A_MODULE", raising=False)
    load_apart(variable)
    assert os.environ["OF_A_MODULE"] == "stays"


FOR_ALL_THREADS = [go_elsewhere, make_files_private, flatten_the_stack, give_sockets_no_time]


@pytest.mark.parametrize("act", [*FOR_ALL_THREADS, find_modules_elsewhere, silence_all])
def test_who_waits_for_a_load_in_another_thread_may_put_back_what_is_of_all_threads(act, tmp_path):
    before, kept = state(), []

    def load():
        kept.append(before_load())
        act(tmp_path)

    loading = threading.Thread(target=load)
    loading.start()
    loading.join()
    traced = sys.gettrace()
    kept[0].put_back()
    assert state() == before
    assert sys.gettrace() is traced


def test_what_is_changed_is_told_by_its_name(tmp_path):
    before = before_load()
    assert before.changed() == []
    give_sockets_no_time(tmp_path)
    round_to_one_digit(tmp_path)
    find_modules_elsewhere(tmp_path)
    fewer_files()
    try:
        found = before.changed()
    finally:
        before.put_back()
    assert found == [
        "decimal.getcontext",
        "resource.setrlimit",
        "socket.setdefaulttimeout",
        "sys.path",
    ]


def test_a_limit_that_a_module_raises_stays_and_is_not_told_as_put_back():
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    fewer_files()
    before = before_load()
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, most))
    try:
        assert before.changed() == []
        before.put_back()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, most)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))


def test_it_works_where_the_folder_is_gone_before(tmp_path):
    here = os.getcwd()
    go_where_nothing_is(tmp_path)
    try:
        run_apart(lambda: None)
    finally:
        os.chdir(here)


def test_options_are_each_calls_own(bench):
    seen = []

    def handler(table, context):
        seen.append(dict(context.options))
        context.options["who"] = context.tenant
        return with_tenant(table, context)

    bench.run(ListSink(), handler=handler)
    assert seen == [{}, {}]
