# SPDX-License-Identifier: Apache-2.0
"""gosrpt.backstore.v1.Backstore for plugins that serve no ring: control, and data in messages."""

import platform
import queue
import threading
import time
from concurrent import futures

import grpc
from backstore.v1 import backstore_pb2 as pb
from plugin.v1 import plugin_pb2
from store import BUSY, INVALID, IO, NOT_SUPPORTED, Failure, Store

SIZE, BOOL, PATH, CHOICE = 2, 3, 5, 6
WORKERS = 16  # of one stream


def error_of(e):
    """Makes the answer's error of an exception. Text that is not UTF-8 cannot be sent."""
    text = str(e).encode("utf-8", "replace").decode()
    return pb.Error(code=e.code if isinstance(e, Failure) else IO, text=text)


class Backstore:
    """The methods of the service by their names; generic() finds them. Each may be called from any thread."""

    def __init__(self):
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._stores = {}
        self._users = {}
        self._last = 0
        self._ended = False

    # Control.

    def Describe(self, request, context):
        setting = plugin_pb2.Setting
        about = plugin_pb2.Description(
            name="example-python", version="1.0.0", summary="a file, served by a plugin in Python", settings=[
                setting(key="path", kind=PATH, required=True, help="the regular file that holds the blocks"),
                setting(key="size", kind=SIZE, min=512, max=(1 << 63) - 1,
                        help="creates a file of this many bytes if path does not exist; must agree if it does"),
                setting(key="block_size", kind=CHOICE, choices=["512", "4096"], default="512",
                        help="of a logical block, bytes"),
                setting(key="read_only", kind=BOOL, default="false", help="refuses writes"),
            ])
        return pb.DescribeResponse(ring=False, transfer=True, description=about,
                                   runtime=f"Python {platform.python_version()}, grpcio {grpc.__version__}")

    def Open(self, request, context):
        try:
            remaining = context.time_remaining()
            deadline = time.monotonic() + (60 if remaining is None else remaining)
            store = Store(dict(request.config), deadline, context.is_active)
            id = self._add(store)
        except (Failure, OSError) as e:
            return pb.OpenResponse(error=error_of(e))
        # A caller that has given up cannot close what it was never told of.
        if not context.is_active():
            self._close(id, 0)
        return pb.OpenResponse(store=id, info=pb.Info(
            block_size=store.block_size, blocks=store.size // store.block_size, read_only=store.read_only,
            write_cache=True, fua=True))

    def CloseStore(self, request, context):
        try:
            self._close(request.store, context.time_remaining() or 10)
        except Failure as e:
            return pb.CloseStoreResponse(error=error_of(e))
        return pb.CloseStoreResponse()

    def Health(self, request, context):
        return pb.HealthResponse()  # it has no queues

    # Data.

    def Read(self, request, context):
        error, data = self._do(request.store, lambda s: s.read(request.offset, request.length))
        return pb.ReadResponse(error=error, data=data)

    def Write(self, request, context):
        error, _ = self._do(request.store, lambda s: s.write(request.offset, request.data, request.fua))
        return pb.WriteResponse(error=error)

    def Flush(self, request, context):
        error, _ = self._do(request.store, Store.flush)
        return pb.FlushResponse(error=error)

    def Transfer(self, requests, context):
        """Answers requests as they end, several at once."""
        answers = queue.SimpleQueue()
        room = threading.Semaphore(2 * WORKERS)  # a caller that sends and does not read is not served without end
        pool = futures.ThreadPoolExecutor(WORKERS)

        def feed():
            try:
                for r in requests:
                    while not room.acquire(timeout=1):
                        if not context.is_active():
                            return
                    pool.submit(lambda r=r: answers.put(self._transfer(r)))
            except grpc.RpcError:
                pass  # the caller has gone
            finally:
                pool.shutdown()
                answers.put(None)

        threading.Thread(target=feed, daemon=True).start()
        while (answer := answers.get()) is not None:
            room.release()
            yield answer

    def _transfer(self, r):
        op = r.WhichOneof("op")
        if op == "read":
            answer = self.Read(r.read, None)
        elif op == "write":
            answer = self.Write(r.write, None)
        elif op == "flush":
            answer = self.Flush(r.flush, None)
        else:
            return pb.TransferResponse(tag=r.tag, error=error_of(Failure(NOT_SUPPORTED)))
        error = answer.error if answer.HasField("error") else None
        return pb.TransferResponse(tag=r.tag, error=error, data=answer.data if op == "read" else b"")

    # What is open.

    def _add(self, store):
        with self._lock:
            if not self._ended:
                self._last += 1
                self._stores[self._last], self._users[self._last] = store, 0
                return self._last
        store.close()
        raise Failure(INVALID, "the plugin is shutting down")

    def _do(self, id, call):
        """Calls with a store that stays open meanwhile. Returns an error and a result, one of them None."""
        with self._lock:
            store = self._stores.get(id)
            if store is None:
                return error_of(Failure(INVALID, f"no store {id} is open")), None
            self._users[id] += 1
        try:
            return None, call(store)
        except Exception as e:  # whatever it is, it was not done
            return error_of(e), None
        finally:
            with self._lock:
                self._users[id] -= 1
                self._idle.notify_all()

    def _close(self, id, seconds):
        with self._lock:
            store = self._stores.pop(id, None)
            if store is None:
                raise Failure(INVALID, f"no store {id} is open")
            if not self._idle.wait_for(lambda: self._users[id] == 0, seconds):
                self._stores[id] = store
                raise Failure(BUSY, f"requests of store {id} are still under way")
            del self._users[id]
        store.close()

    def shutdown(self, seconds):
        """Opens nothing more, and closes every store that has nothing under way in time; the end of the process closes the others."""
        end = time.monotonic() + seconds
        with self._lock:
            self._ended = True
            ids = list(self._stores)
        for id in ids:
            try:
                self._close(id, max(end - time.monotonic(), 0))
            except Failure:
                pass


def generic(server):
    """Binds the methods that server has to the service's description. gRPC answers UNIMPLEMENTED to the others."""
    service = pb.DESCRIPTOR.services_by_name["Backstore"]
    handlers = {}
    for m in service.methods:
        call = getattr(server, m.name, None)
        if call is None:
            continue
        make = grpc.stream_stream_rpc_method_handler if m.name == "Transfer" else grpc.unary_unary_rpc_method_handler
        handlers[m.name] = make(call, request_deserializer=m.input_type._concrete_class.FromString,
                                response_serializer=m.output_type._concrete_class.SerializeToString)
    return grpc.method_handlers_generic_handler(service.full_name, handlers)
