// A gRPC client of the end-to-end tests: grpc-js, with its own xDS client.
//
//   node client.js <target> <method> <timeout in milliseconds>
//
// The bootstrap is in GRPC_XDS_BOOTSTRAP_CONFIG. The first line of the output is
// {"version": …}; then each line of the input makes one unary RPC, which is
// reported as {"code": …, "message": …} or {"code": 0, "backend": …}. The end of
// the input ends the process.
'use strict';

const readline = require('node:readline');
const grpc = require('@grpc/grpc-js');
const xds = require('@grpc/grpc-js-xds');

const [target, method, timeout] = process.argv.slice(2);
const bytes = (b) => b; // messages have no schema
const report = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const versionOf = (name) => require(`${name}/package.json`).version;

xds.register();
const client = new grpc.Client(target, grpc.credentials.createInsecure());

report({ version: `${versionOf('@grpc/grpc-js')} with grpc-js-xds ${versionOf('@grpc/grpc-js-xds')}` });
readline
  .createInterface({ input: process.stdin })
  .on('line', () => {
    const deadline = Date.now() + Number(timeout);
    client.makeUnaryRequest(method, bytes, bytes, Buffer.alloc(0), new grpc.Metadata(), { deadline }, (err, answer) => {
      report(err ? { code: err.code, message: err.details } : { code: grpc.status.OK, backend: answer.toString() });
    });
  })
  // The xDS client keeps timers and its stream for a while after close().
  .on('close', () => process.exit(0));
