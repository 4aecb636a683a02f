"""A gRPC client of the end-to-end tests: Python's, whose xDS client is C-core's.

    python client.py <method> <timeout in milliseconds>

The bootstrap is in GRPC_XDS_BOOTSTRAP_CONFIG. The first line of the output is
{"version": ...}. Then each line of the input is a target, over whose channel it
makes one unary RPC, without waiting for others. It is reported as
{"target": ..., "code": ..., "message": ...} or {"target": ..., "code": 0,
"backend": ...}. The end of the input ends the process.
"""

import json
import sys
import threading

import grpc

output = threading.Lock()


def report(line):
    with output:
        print(json.dumps(line), flush=True)


def outcome(rpc):
    if rpc.code() is grpc.StatusCode.OK:
        return {"code": grpc.StatusCode.OK.value[0], "backend": rpc.result().decode()}
    return {"code": rpc.code().value[0], "message": rpc.details()}


def main(method, timeout):
    channels = {}
    report({"version": grpc.__version__})
    for line in sys.stdin:
        target = line.rstrip("\n")
        if target not in channels:
            channels[target] = grpc.insecure_channel(target)
        call = channels[target].unary_unary(method)  # without serializers messages are bytes
        rpc = call.future(b"", timeout=int(timeout) / 1000)
        rpc.add_done_callback(lambda rpc, target=target: report({"target": target, **outcome(rpc)}))
    for channel in channels.values():
        channel.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
