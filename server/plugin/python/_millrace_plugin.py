"""A process that runs a plugin for a daemon of Millrace.

    python _millrace_plugin.py PARENT NAME

PARENT is the process id of the daemon, NAME the plugin's name, for people who look at processes.
Everything else comes over the socket that is open as file 3: messages are a length of 4 bytes and
JSON, and some bring open files. The first message says what this process is:

- a *fork_server*: it imports the plugin once, and forks a process whenever the daemon asks;
- a process that imports the plugin for itself, if the import starts threads, with which a fork is
  not safe.

A process constructs the plugin's object and then builds batches, one request at a time. Values go
into shared memory (_millrace_memory.py).

It ends when the daemon does, however that ends: the kernel kills it then, and so does the end of
the socket. Needs Python 3.8 and numpy 1.22, and nothing of Millrace.
"""

import array
import ctypes
import faulthandler
import gc
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading

CONTROL = 3  # the open file over which the daemon speaks
LEFT_TO_THE_DAEMON = (signal.SIGTERM, signal.SIGINT)
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
OLDEST_NUMPY = (1, 22)


def prctl(option, value):
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with(parent):
    """The kernel kills this process when its parent is gone."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone already, or something stands between
        sys.stderr.write("the process that started Python is not the daemon: `python` has to be "
                         "the interpreter itself, not a program that starts it\n")
        sys.stderr.flush()
        os._exit(1)


def do_nothing(number, frame):
    """Handles the signals that are left to the daemon."""


class Forks:
    """Gives what the plugin forks the usual handling of signals. One that comes before it does so
    waits: whoever ends a process at once sends a signal once."""

    def __init__(self):
        self.of_plugin = True
        self.masks = threading.local()
        os.register_at_fork(before=self.block, after_in_parent=self.restore,
                            after_in_child=self.begin)

    def block(self):
        self.masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, LEFT_TO_THE_DAEMON)

    def restore(self):
        signal.pthread_sigmask(signal.SIG_SETMASK, self.masks.before)

    def begin(self):
        for number in LEFT_TO_THE_DAEMON:
            if self.of_plugin and signal.getsignal(number) is do_nothing:
                signal.signal(number, signal.SIG_DFL)
        self.restore()

    def fork_our_own(self):
        """os.fork for a process that handles signals as this one does."""
        self.of_plugin = False
        try:
            return os.fork()
        finally:
            self.of_plugin = True


def settle(parent, name):
    """What the process is to be before any code of others runs in it."""
    die_with(parent)
    prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]))
    # A service manager sends one of these to all processes of a service, a terminal the other; the
    # daemon decides when to end. They are not ignored, because a program that the plugin starts
    # would ignore them too.
    for number in LEFT_TO_THE_DAEMON:
        signal.signal(number, do_nothing)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("800")
    except OSError:
        pass
    sys.stdout.reconfigure(line_buffering=True)
    sys.stderr.reconfigure(line_buffering=True)
    faulthandler.enable(all_threads=True)


def post_guard():
    """Forks a process that ends everything in this session when this process is gone.

    The kernel ends this process with the daemon, and what it forks with this process, but not the
    programs that the plugin starts.
    """
    guarded = os.getpid()
    if os.fork() != 0:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    for file in (1, 2):
        os.dup2(0, file)
    os.close(CONTROL)
    if os.getppid() == guarded:
        signal.sigwait([signal.SIGUSR1])
    while end_session():  # they may fork meanwhile
        pass
    os._exit(0)


def end_session():
    """Kills what else there is in this session, and says whether there was something."""
    found = False
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%d/stat" % int(name)) as file:
                state, _, _, session = file.read().rpartition(")")[2].split()[:4]
            if int(session) == os.getsid(0) and int(name) != os.getpid() and state not in "ZX":
                os.kill(int(name), signal.SIGKILL)
                found = True
        except (OSError, ValueError):  # it is no process, or gone
            pass
    return found


class Channel:
    """Messages of one socket. A message is a dict, and open files that come with it."""

    def __init__(self, connection):
        self.connection = connection

    def receive(self):
        """The next message and its files. Ends the process if the other end is gone."""
        data, ancillary, _, _ = self.connection.recvmsg(1 << 16, socket.CMSG_SPACE(4 * 16))
        files = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                files.frombytes(content[:len(content) // 4 * 4])
        while len(data) < 4 or len(data) < 4 + struct.unpack_from("<I", data)[0]:
            more = self.connection.recv(1 << 20)
            if not more:
                os._exit(0)
            data += more
        for file in files:
            os.set_inheritable(file, False)
        return json.loads(data[4:].decode()), files

    def send(self, message):
        data = json.dumps(message).encode()
        self.connection.sendall(struct.pack("<I", len(data)) + data)


class Plugin:
    """The plugin's module, which is imported from the daemon's copy of its files."""

    def __init__(self, start):
        self.name = start["plugin"]
        self.folder = start["folder"]
        self.original = start["original"]

    def import_module(self):
        """Imports numpy and the module. Returns what the daemon has to know, or an error."""
        try:
            import numpy
        except ImportError as error:
            return {"error": {"message": "%s has no numpy (%s); plugins need numpy %d.%d or newer"
                                         % (sys.executable, error, *OLDEST_NUMPY)}}
        version = tuple(int(number) for number in numpy.__version__.split(".")[:2])
        if version < OLDEST_NUMPY:
            return {"error": {"message": "%s has numpy %s; plugins need numpy %d.%d or newer"
                                         % (sys.executable, numpy.__version__, *OLDEST_NUMPY)}}
        # They are imported before the plugin's folder takes the place of theirs.
        import _millrace_object as objects
        import _millrace_worker

        self.new_worker = _millrace_worker.Worker
        sys.path[0] = self.folder
        sys.argv = [self.name]
        os.chdir(self.folder)
        self.describer = objects.Describer(self.folder, self.original)
        try:
            self.module = __import__(self.name)
            self.check_home()
        except objects.PluginError as error:
            return {"error": {"message": str(error)}}
        except BaseException as error:
            return {"error": dict(self.describer.describe(error), during="import")}
        return {"imported": {"threads": len(os.listdir("/proc/self/task")),
                             "python": "%d.%d.%d" % sys.version_info[:3],
                             "numpy": numpy.__version__}}

    def check_home(self):
        from _millrace_object import PluginError

        home = os.path.realpath(getattr(self.module, "__file__", None) or "")
        if not home.startswith(os.path.realpath(self.folder) + os.sep):
            raise PluginError('plugin "%s": Python has another module of this name%s; give the '
                              "plugin another name" % (self.name, home and ", " + home))


def run_fork_server(channel, plugin, forks):
    """Forks a process for each request. A process that has ended keeps its number until the daemon
    asks for its end, so that the daemon never kills another process of the same number."""
    gc.collect()
    gc.freeze()  # so that collections in the children do not touch, and copy, these objects
    while True:
        message, files = channel.receive()
        if "reap" in message:
            channel.send({"status": os.waitpid(message["reap"], 0)[1]})
            continue
        sys.stdout.flush()
        sys.stderr.flush()
        fork_server = os.getpid()
        child = forks.fork_our_own()
        if child == 0:
            die_with(fork_server)
            os.setpgid(0, 0)
            channel.connection.close()
            os.dup2(files[1], 1)
            os.dup2(files[1], 2)
            os.close(files[1])
            serve(Channel(socket.socket(fileno=files[0])), plugin)
        try:
            os.setpgid(child, child)
        except OSError:  # it did so itself, or has ended
            pass
        for file in files:
            os.close(file)
        channel.send({"pid": child})


def serve(channel, plugin):
    """Answers the requests of the daemon until it is gone."""
    from _millrace_object import PluginError

    copies = []
    worker = plugin.new_worker(plugin, copies)

    def in_copy():  # code of the plugin forked: what it started may not speak for this process
        copies.append(True)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        channel.connection.close()

    os.register_at_fork(after_in_child=in_copy)
    while True:
        message, files = channel.receive()
        try:
            answer = worker.answer(message, files)
        except PluginError as error:
            answer = {"error": {"message": str(error)}}
        except BaseException as error:
            answer = {"error": plugin.describer.describe(error)}
        if copies:
            os._exit(0)
        channel.send(answer)


def main():
    parent, name = int(sys.argv[1]), sys.argv[2]
    settle(parent, name)
    post_guard()
    forks = Forks()
    connection = socket.socket(fileno=CONTROL)
    connection.set_inheritable(False)
    channel = Channel(connection)
    start, _ = channel.receive()
    plugin = Plugin(start)
    answer = plugin.import_module()
    channel.send(answer)
    if "error" in answer:
        channel.receive()  # until the daemon has read it and is gone
    elif start["fork_server"] and answer["imported"]["threads"] == 1:
        run_fork_server(channel, plugin, forks)
    else:
        serve(channel, plugin)


if __name__ == "__main__":
    main()
