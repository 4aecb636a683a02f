// A gRPC client of the end-to-end tests: grpc-js, with its own xDS client.
//
//   node client.js <method> <timeout in milliseconds>
//
// The bootstrap is in GRPC_XDS_BOOTSTRAP_CONFIG. The first line of the output is
// {"version": …}. Then each line of the input is a target, over whose channel it
// makes one unary RPC, without waiting for others. It is reported as
// {"target": …, "code": …, "message": …} or {"target": …, "code": 0, "backend": …}.
// The end of the input ends the process.
'use strict';

const readline = require('node:readline');
const grpc = require('@grpc/grpc-js');
const xds = require('@grpc/grpc-js-xds');

const [method, timeout] = process.argv.slice(2);
const bytes = (b) => b; // messages have no schema
const report = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const versionOf = (name) => require(`${name}/package.json`).version;

xds.register();
const clients = new Map();

function clientOf(target) {
  if (!clients.has(target)) {
    clients.set(target, new grpc.Client(target, grpc.credentials.createInsecure()));
  }
  return clients.get(target);
}

report({ version: `${versionOf('@grpc/grpc-js')} with grpc-js-xds ${versionOf('@grpc/grpc-js-xds')}` });
readline
  .createInterface({ input: process.stdin })
  .on('line', (target) => {
    const options = { deadline: Date.now() + Number(timeout) };
    clientOf(target).makeUnaryRequest(method, bytes, bytes, Buffer.alloc(0), new grpc.Metadata(), options, (err, answer) => {
      const outcome = err ? { code: err.code, message: err.details } : { code: grpc.status.OK, backend: answer.toString() };
      report({ target, ...outcome });
    });
  })
  // The xDS client keeps timers and its stream for a while after close().
  .on('close', () => process.exit(0));
