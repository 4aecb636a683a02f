"""A gRPC client of the end-to-end tests: Python's, whose xDS client is C-core's.

    /usr/bin/python3 client.py <target> <method> <timeout in milliseconds>

The bootstrap is in GRPC_XDS_BOOTSTRAP_CONFIG. The first line of the output is
{"version": ...}; then each line of the input makes one unary RPC, which is
reported as {"code": ..., "message": ...} or {"code": 0, "backend": ...}. The end
of the input ends the process.
"""

import json
import sys

import grpc


def report(line):
    print(json.dumps(line), flush=True)


def outcome(call, timeout):
    try:
        answer = call(b"", timeout=timeout)
    except grpc.RpcError as err:
        return {"code": err.code().value[0], "message": err.details()}
    return {"code": grpc.StatusCode.OK.value[0], "backend": answer.decode()}


def main(target, method, timeout):
    with grpc.insecure_channel(target) as channel:
        call = channel.unary_unary(method)  # without serializers messages are bytes
        report({"version": grpc.__version__})
        for _ in sys.stdin:
            report(outcome(call, int(timeout) / 1000))


if __name__ == "__main__":
    main(*sys.argv[1:])
